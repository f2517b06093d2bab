"""The lines to edit: those that switch modes, that freeze, and that stand on the wrong side of an optimizer."""
