/** A thing that a caller must have for a call besides the permission: a token, or a key or an account of their own. */
export type CallNeed = LoginNeed | KeyNeed | AccountNeed

export interface LoginNeed {
  readonly kind: 'login'
  readonly scopes: readonly string[]
  readonly links: readonly string[]
}

interface KeyNeed {
  readonly kind: 'key'
  readonly backend: string
  readonly provider: string
  readonly title: string
  /** Page that tells how to get such a key. */
  readonly helpUrl?: string
  readonly links: readonly string[]
}

/** A login at a provider that the call asks for, by a link in its answer. */
interface AccountNeed {
  readonly kind: 'account'
  readonly backend: string
  readonly provider: string
  readonly host: string
  /** The page where its owner sees what is linked. */
  readonly links: readonly string[]
}
