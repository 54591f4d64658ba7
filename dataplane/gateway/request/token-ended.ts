/** For who waits for an answer when the token of the request ends. */
export const TOKEN_ENDED = 'The token has expired or was revoked; the request may have been carried out.'
