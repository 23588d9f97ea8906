//! windlass-experiments
