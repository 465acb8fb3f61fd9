-- Run once, when the volume of the database is empty.
CREATE DATABASE mlflow;
CREATE DATABASE prefect;
CREATE DATABASE archive;
