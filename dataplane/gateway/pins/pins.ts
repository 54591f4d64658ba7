import type { PinningConfig } from '../../config/pinning.ts'
import { PinTable } from './pin-table.ts'

export const PIN_KINDS = ['instructions', 'tools', 'prompts', 'resources', 'resourceTemplates', 'pages'] as const
export type PinKind = (typeof PIN_KINDS)[number]
export type NamedKind = Exclude<PinKind, 'instructions'>

/** The reason why a definition is not approved: it has pins with other digests, or no pins. */
export type Reason = 'changed' | 'unpinned'

/** The current pins of one backend. */
export class Pins {
  /** True if definitions that are not approved are withheld; false if they are only reported. */
  readonly isEnforced: boolean
  readonly #instructions: readonly string[]
  readonly #tables: ReadonlyMap<NamedKind, PinTable>
  readonly #unlisted: NonNullable<NonNullable<PinningConfig['pins']>['unlisted']>

  constructor({ mode, pins = {} }: PinningConfig) {
    const { instructions = [], unlisted = {}, ...named } = pins
    this.isEnforced = mode === 'enforce'
    this.#instructions = instructions
    this.#unlisted = unlisted
    this.#tables = new Map(Object.entries(named).map(([kind, digests]) => [kind as NamedKind, new PinTable(digests)]))
  }

  /** Returns the reason why a definition with this digest is not approved; undefined if it is. */
  reasonAgainst(kind: PinKind, name: string, digest: string | undefined): Reason | undefined {
    const isKnown = kind === 'instructions' ? this.#instructions.length > 0 : this.has(kind, name)
    if (!isKnown) return this.unlisted(kind) === 'withhold' ? 'unpinned' : undefined
    return digest !== undefined && this.#isPinned(kind, name, digest) ? undefined : 'changed'
  }

  /** Returns how definitions without a pin are treated. */
  unlisted(kind: PinKind): 'withhold' | 'allow' | 'bare' {
    return this.#unlisted[kind] ?? 'withhold'
  }

  #isPinned(kind: PinKind, name: string, digest: string): boolean {
    if (kind === 'instructions') return this.#instructions.includes(digest)
    return this.#tables.get(kind)?.isPinned(name, digest) === true
  }

  has(kind: NamedKind, name: string): boolean {
    return this.#tables.get(kind)?.has(name) === true
  }

  names(kind: NamedKind): Iterable<string> {
    return this.#tables.get(kind)?.names() ?? []
  }
}
