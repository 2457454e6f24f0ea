"""The sweep engine: from a list of trials to Parquet rows.

The way from a script to the training of a trial:

    launch/cli.py main                  reads the command line
    launch/launch.py run_sweeps         plans which trials the store lacks
    launch/scheduler.py Scheduler.run   hands them to an executor; reports and retries
    executors/ Executor.run             Ray or this process
    executors/worker.py run_trials      in the process that trains: one trial after another
    trial/attempt.py run_attempt        rows, states and failures of an attempt
    pcore.training          trains
"""
