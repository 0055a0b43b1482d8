"""Loop nests to Python source; the CPU and CUDA emitters share the spelling of scalar expressions."""
