"""What people see of a training: lines, tables, pictures."""
