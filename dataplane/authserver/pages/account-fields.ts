/** Names of the fields of the forms about what is linked. */
export const fields = { token: 'token', action: 'action', revoke: 'revoke', unlink: 'unlink' } as const

/** Values of `action`. */
export const actions = { signIn: 'sign-in', signOut: 'sign-out', revokeAll: 'revoke-all' } as const
