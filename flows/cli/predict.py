"""The command that predicts rows with a stored model."""

import warnings
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import RunId, Uri, tracking_of
from flows.display.terminal import echo
from swarm.errors import InputError


def predict(
    run_id: RunId,
    rows: Annotated[str, typer.Argument(help="A text, Excel or Parquet file to predict.")],
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FILE", help="File to write, a CSV or Parquet file."),
    ] = Path("predictions.csv"),
    of_champion: Annotated[
        bool, typer.Option("--champion", help="RUN_ID is the name of a champion.")
    ] = False,
    tracking_uri: Uri = None,
) -> None:
    """Predict the rows of a file with the model of a run.

    Cells are read as those of the training table. Each row gets a prediction, and the probability
    of each class if the model has them. Columns that it does not need are ignored; a category that
    training did not have counts as missing.

    Example: swarm predict RUN_ID new_rows.csv --out predictions.csv
    """
    writers = {".csv": "to_csv", ".parquet": "to_parquet", ".pq": "to_parquet"}
    writer = writers.get(out.suffix.lower())
    if writer is None:
        raise InputError(
            f"cannot write {str(out)!r}: its extension is unknown; use .csv or .parquet"
        )
    from tasks.models.inference import load_model, model_of_run, predict_file
    from tasks.refresh.champion import Champions

    store = tracking_of(tracking_uri)
    uri = Champions(store).require(run_id).uri if of_champion else model_of_run(store, run_id)
    model = load_model(store, uri)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        predictions = predict_file(model, uri, rows)
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        echo(f"warning {text}", err=True)
    try:
        getattr(predictions, writer)(out, index=False)
    except OSError as error:
        raise InputError(f"cannot write {out}: {error.strerror}; pass another --out") from None
    typer.echo(f"wrote {out}: {len(predictions):,} predictions of {uri}")
