"""D"""
from gpulayout.dask.moving import pack, relayout, unpack
