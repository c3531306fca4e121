-- Says who a token belongs to, and does nothing else.
-- Returns {'ok', worker}
return {'ok', worker}
