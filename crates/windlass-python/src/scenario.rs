//! A scenario: read and checked once, run as often as wanted.

use crate::error::{of_scenario, other};
use pyo3::prelude::*;
use std::path::PathBuf;
use windlass_experiments::Home;
use windlass_scenario::{ScenarioError, ScenarioFile, read_file};

/// A network with its traffic, which the simulator can run.
#[pyclass(frozen, module = "windlass._windlass")]
pub struct Scenario {
    pub file: ScenarioFile,
    #[pyo3(get)]
    file_name: String,
    #[pyo3(get)]
    text: String,
}

impl Scenario {
    fn of(file_name: String, text: String) -> Result<Scenario, ScenarioError> {
        let file = ScenarioFile::parse(&file_name, &text)?;
        let wrong = |what: String| ScenarioError::new(&file_name, 0, &what);
        file.scenario.check_sends().map_err(wrong)?;
        Home::Sim.check(&file.scenario).map_err(|refusal| file.refused(&refusal))?;
        Ok(Scenario { file, file_name, text })
    }
}

#[pymethods]
impl Scenario {
    /// Reads a file.
    #[staticmethod]
    fn read(py: Python, path: PathBuf) -> PyResult<Scenario> {
        let name = path.display().to_string();
        let cannot = |e| ScenarioError::new(&name, 0, &format!("cannot be read: {e}"));
        let text = read_file(&path).map_err(cannot);
        text.and_then(|text| Scenario::of(name.clone(), text)).map_err(|e| of_scenario(py, &e))
    }

    /// Checks the text of one; `file_name` is for messages, and its folder is where names of files in it count from.
    #[staticmethod]
    fn parse(py: Python, file_name: String, text: String) -> PyResult<Scenario> {
        Scenario::of(file_name, text).map_err(|e| of_scenario(py, &e))
    }

    /// The same with another seed.
    fn with_seed(&self, py: Python, seed: u64) -> PyResult<Scenario> {
        let file = self.file.clone().with_seed(seed).map_err(|e| of_scenario(py, &e))?;
        Ok(Scenario { file, file_name: self.file_name.clone(), text: self.text.clone() })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.file.scenario.name
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.file.scenario.seed
    }

    #[getter]
    fn time_limit_s(&self) -> f64 {
        self.file.scenario.time_limit.0
    }

    #[getter]
    fn flow_names(&self) -> Vec<String> {
        self.file.scenario.flows.iter().map(|flow| flow.name()).collect()
    }

    /// Numbers of the flows whose window can be set from outside.
    #[getter]
    fn window_flows(&self) -> Vec<usize> {
        let scenario = &self.file.scenario;
        (0..scenario.flows.len()).filter(|flow| windlass_sim::check_window(scenario, *flow).is_ok()).collect()
    }

    #[getter]
    fn link_names(&self) -> Vec<String> {
        self.file.scenario.link_names()
    }
}

/// A value of JSON as TOML has it on one line.
#[pyfunction]
pub fn toml_value_of_json(py: Python, json: &str) -> PyResult<String> {
    let value: Result<toml::Value, _> = serde_json::from_str(json);
    value.map(|value| value.to_string()).map_err(|e| other(py, &format!("{json}: no value: {e}")))
}

/// A table of JSON as TOML.
#[pyfunction]
pub fn toml_of_json(py: Python, json: &str) -> PyResult<String> {
    let table: Result<toml::Table, _> = serde_json::from_str(json);
    let table = table.map_err(|e| other(py, &format!("no scenario: {e}")))?;
    toml::to_string(&table).map_err(|e| other(py, &format!("no scenario: {e}")))
}

impl Scenario {
    /// Its name in messages.
    pub fn file_name(&self) -> &str {
        &self.file_name
    }
}
