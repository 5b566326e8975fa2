def page(table, target): pass
