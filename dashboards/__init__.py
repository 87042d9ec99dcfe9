"""What the store says, drawn: one chart a question, one page a run, one static site for all of them."""
