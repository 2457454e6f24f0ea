"""The charts that the dashboard opens with, and the address of the page that shows them.

MLflow stores a shared view as a tag of the experiment and shows it if the address contains its key.
Ours shows curves of cells (means over seeds), exact match by length first.
"""

import json

KEY = "pcore"
SHARED_VIEW = f"mlflow.sharedViewState.{KEY}"
CHARTS = {  # title: metric
    "Exact match by length": "last/exact_match_by_length",
    "Training loss by step": "loss",
    "Learning rate by step": "learning_rate",
    "Gradient norm by step": "grad_norm",
}
SECTION = "pcore-curves"


def page(server: str, experiment: str) -> str:
    """The address of the charts of an experiment."""
    kept = f"workflowType=machine_learning&compareRunsMode=CHART&viewStateShareKey={KEY}"
    return f"{server}/#/experiments/{experiment}/runs?{kept}"


def shared_view() -> str:
    """The view as MLflow's pages read it (experiment-page UI state of version 3.17)."""
    return json.dumps(
        {
            "orderByKey": "attributes.start_time",
            "orderByAsc": True,
            "searchFilter": "",
            "runsHiddenMode": "FIRST_20_RUNS",
            "hideEmptyCharts": True,
            "useGroupedValuesInCharts": True,
            "groupBy": {
                "aggregateFunction": "average",
                "groupByKeys": [{"mode": "tag", "groupByData": "pcore.cell"}],
            },
            "compareRunSections": [
                {
                    "uuid": SECTION,
                    "name": "Curves, means over seeds",
                    "display": True,
                    "isReordered": True,
                    "columns": 2,
                    "cardHeight": 360,
                }
            ],
            "compareRunCharts": [
                _line(f"{SECTION}-{i}", title, metric)
                for i, (title, metric) in enumerate(CHARTS.items())
            ],
            "globalLineChartConfig": {
                "xAxisKey": "step",
                "lineSmoothness": 0,
                "selectedXAxisMetricKey": "",
            },
        }
    )


def _line(uuid: str, title: str, metric: str) -> dict[str, object]:
    return {
        "type": "LINE",
        "uuid": uuid,
        "metricSectionId": SECTION,
        "displayName": title,
        "metricKey": metric,
        "xAxisKey": "step",
        "useGlobalXaxisKey": True,
        "scaleType": "log" if metric == "loss" else "linear",
        "xAxisScaleType": "linear",
        "range": {},
        "lineSmoothness": 0,
        "useGlobalLineSmoothing": False,
        "yAxisKey": "metric",
        "yAxisExpressions": [],
        "selectedXAxisMetricKey": "",
        "ignoreOutliers": False,
        "runsCountToCompare": 20,
        "isGenerated": False,
        "deleted": False,
    }
