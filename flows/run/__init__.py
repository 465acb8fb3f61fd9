"""What a run needs: its configuration, its data, its stores and its server."""
