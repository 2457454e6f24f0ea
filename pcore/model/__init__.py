"""The Transformer of the papers (transformer.py), the same function made fast, and its files on
disk.
"""
