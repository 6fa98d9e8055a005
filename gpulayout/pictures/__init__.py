"""Pictures of layouts: one model of what is drawn, written as SVG or as text."""
