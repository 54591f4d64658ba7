import type { PinningConfig } from '../../config/pinning.ts'

/** The kinds of what a server shows, as pins and reports name them. */
export const PIN_KINDS = ['instructions', 'tools', 'prompts', 'resources', 'resourceTemplates', 'pages'] as const
export type PinKind = (typeof PIN_KINDS)[number]
/** The kinds of which a server has several, each with a name. */
export type NamedKind = Exclude<PinKind, 'instructions'>

/** The reason why a definition is not approved: it has pins of other texts, or none. */
export type Reason = 'changed' | 'unpinned'

/** The pins of one backend in force. */
export class Pins {
  /** True if definitions that are not approved are withheld; false if they are only reported. */
  readonly isEnforced: boolean
  readonly #instructions: readonly string[]
  readonly #digests: ReadonlyMap<NamedKind, ReadonlyMap<string, readonly string[]>>
  readonly #unlisted: NonNullable<NonNullable<PinningConfig['pins']>['unlisted']>

  constructor({ mode, pins = {} }: PinningConfig) {
    const { instructions = [], unlisted = {}, ...named } = pins
    this.isEnforced = mode === 'enforce'
    this.#instructions = instructions
    this.#unlisted = unlisted
    this.#digests = new Map(
      Object.entries(named).map(([kind, digests]) => [kind as NamedKind, new Map(Object.entries(digests))]),
    )
  }

  /**
   * Returns the reason why a definition of this digest (undefined if it has none) is not approved; undefined if it is.
   */
  reasonAgainst(kind: PinKind, name: string, digest: string | undefined): Reason | undefined {
    const approved = kind === 'instructions' ? this.#instructions : this.#digests.get(kind)?.get(name)
    if (approved === undefined || approved.length === 0)
      return this.unlisted(kind) === 'withhold' ? 'unpinned' : undefined
    return digest !== undefined && approved.includes(digest) ? undefined : 'changed'
  }

  /** Returns the treatment of what has no pin. */
  unlisted(kind: PinKind): 'withhold' | 'allow' | 'bare' {
    return this.#unlisted[kind] ?? 'withhold'
  }

  has(kind: NamedKind, name: string): boolean {
    return this.#digests.get(kind)?.has(name) === true
  }

  names(kind: NamedKind): Iterable<string> {
    return this.#digests.get(kind)?.keys() ?? []
  }
}
