"""Which question? The command line, studies, tables and plots."""
