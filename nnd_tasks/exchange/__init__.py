"""Results that come from elsewhere and go elsewhere: any task of lm-eval as runs, and runs in the schema of Every Eval Ever."""
