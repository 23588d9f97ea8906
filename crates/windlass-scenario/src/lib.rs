//! windlass-scenario
