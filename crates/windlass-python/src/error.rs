//! Errors as Python's exceptions.

use pyo3::{prelude::*, types::PyAny};
use windlass_scenario::ScenarioError;

/// An exception of `windlass._errors`.
fn exception(py: Python, class: &str, arguments: impl FnOnce(&Bound<PyAny>) -> PyResult<Py<PyAny>>) -> PyErr {
    let class = py.import("windlass._errors").and_then(|module| module.getattr(class));
    match class.and_then(|class| arguments(&class)) {
        Ok(error) => PyErr::from_value(error.into_bound(py)),
        Err(why) => why,
    }
}

/// `windlass.ScenarioError`, with the file and the line of the mistake.
pub fn of_scenario(py: Python, error: &ScenarioError) -> PyErr {
    let ScenarioError { file, line, what } = error;
    let line = Some(*line).filter(|line| *line > 0);
    exception(py, "ScenarioError", |class| Ok(class.call1((what, file, line))?.unbind()))
}

/// `windlass.WindlassError`
pub fn other(py: Python, what: &str) -> PyErr {
    exception(py, "WindlassError", |class| Ok(class.call1((what,))?.unbind()))
}

/// A mistake in a scenario, wherever in the chain it is; else another error.
pub fn of_any(py: Python, error: &anyhow::Error) -> PyErr {
    match error.downcast_ref::<ScenarioError>() {
        Some(mistake) => of_scenario(py, mistake),
        None => other(py, &format!("{error:#}")),
    }
}
