"""stub"""
def available(): return False
def quantize(*a): return False
def quantize_blocks(*a): return None
