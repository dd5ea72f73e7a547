"""What repeats experiments of papers, and what asks more of results than a comparison."""
