"""How PyTorch computes a model under a recipe: hooks, a function mode that intercepts products, their rounded forms."""
