"""The analysis of one trained model, kept beside its rows."""

import sys
import traceback

from pcore.config import TrialConfig
from pcore.diagnosis.mechanism import mechanism_rows
from pcore.model import Transformer
from pcore.registry import describe_error
from sweeps.engine.store import mechanisms
from sweeps.engine.store.folder import Folder


def write_diagnosis(
    folder: Folder, name: str, model: Transformer, config: TrialConfig, num_examples: int
) -> None:
    """Write the mechanism file of a trained model. An error is written to the file, so that it
    cannot cost a finished trial.
    """
    try:
        rows = list(mechanism_rows(model, config, num_examples))
    except Exception as error:
        print(f"the analysis of trial {name} failed: {describe_error(error)}", file=sys.stderr)
        rows = [{"kind": "error", "sentence": traceback.format_exc(limit=-4)}]
    mechanisms.write(folder, name, rows)
