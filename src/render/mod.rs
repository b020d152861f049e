//! Pictures and tables of analysis results. Nothing here computes a figure.
