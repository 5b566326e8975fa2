"""What people look at: plots, Gantt charts, plan maps and traces."""
