"""Where values come from: the call that first had them, and numbers and arrays that left torch and came back."""
