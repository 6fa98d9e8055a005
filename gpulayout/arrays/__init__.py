"""The caller's arrays: whose memory they are, and whether they suit."""
