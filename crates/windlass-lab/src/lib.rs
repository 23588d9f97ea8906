//! windlass-lab
