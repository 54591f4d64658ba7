import type { Logger } from 'pino'
import type { Auditing } from '../../audit/event.ts'
import type { BackendStatus } from '../../config/status.ts'
import type { Backend } from '../backends/backend/backend.ts'
import { PINNED_KINDS, toPinKind } from '../backends/lists/list-kind.ts'
import type { Unapproved } from '../pins/definitions.ts'
import type { PinKind, Pins, Reason } from '../pins/pins.ts'

/** The most reported definitions of callers' own backends that are remembered. */
const MOST_TOLD = 10_000
const LONGEST_NAME = 64
const MOST_NAMES = 10

interface Found extends Unapproved {
  readonly kind: PinKind
}

/** Reports definitions to operators when they become unapproved. */
export class Approvals {
  readonly #audit: Auditing
  readonly #log: Logger
  /** The definitions of each backend that were reported. */
  readonly #told = new WeakMap<Backend, ReadonlySet<string>>()
  /** The same for callers' own backends, by the name of the backend. */
  readonly #toldOfCallers = new Map<string, Set<string>>()

  constructor({ audit, log }: { readonly audit: Auditing; readonly log: Logger }) {
    this.#audit = audit
    this.#log = log
  }

  /** Reports the unapproved definitions that a backend lists now and did not list before. */
  listed(backend: Backend): void {
    if (backend.definitions.pins === undefined) return
    const found = listUnapproved(backend)
    const before = this.#told.get(backend)
    this.#told.set(backend, new Set(found.map(formatKey)))
    for (const one of found) if (before?.has(formatKey(one)) !== true) this.#tell(backend, one)
  }

  /**
   * Reports the unapproved definitions of a caller's own backend: each one once for all callers, until the pins change.
   */
  listedForCaller(backend: Backend): void {
    if (backend.definitions.pins === undefined) return
    for (const one of listUnapproved(backend)) this.#tellOnce(backend, one)
  }

  pageRead(backend: Backend, uri: string, reason: Reason | undefined): void {
    const { pages } = backend.definitions
    const before = pages.get(uri)
    pages.set(uri, reason ?? 'approved')
    if (reason !== undefined && reason !== before) this.#tell(backend, { kind: 'pages', name: uri, reason })
  }

  /** Forgets the reports about callers' backends after a change of their pins. */
  forget(): void {
    this.#toldOfCallers.clear()
  }

  #tellOnce(backend: Backend, one: Found): void {
    let told = this.#toldOfCallers.get(backend.name)
    if (told === undefined) this.#toldOfCallers.set(backend.name, (told = new Set()))
    const key = formatKey(one)
    if (told.has(key) || told.size >= MOST_TOLD) return
    told.add(key)
    this.#tell(backend, one)
  }

  #tell({ name: backend, definitions }: Backend, { kind, name, reason }: Found): void {
    const isWithheld = definitions.areEnforced
    this.#log.debug({ backend, kind, name: plainName(name), reason }, 'a definition is not approved')
    this.#audit.log?.write({
      type: 'definition_withheld',
      outcome: isWithheld ? 'denied' : 'success',
      target: {
        backend,
        kind,
        ...(kind === 'instructions' ? {} : { name: plainName(name) }),
        reason,
        mode: isWithheld ? 'enforce' : 'report',
      },
    })
  }
}

const formatKey = ({ kind, name, reason }: Found): string => `${kind} ${reason} ${name}`

function listUnapproved(backend: Backend): readonly Found[] {
  const { definitions, received } = backend
  const reason = definitions.reasonAgainstInstructions(received.instructions)
  const found: Found[] = reason === undefined ? [] : [{ kind: 'instructions', name: '', reason }]
  for (const list of PINNED_KINDS) {
    const kind = toPinKind(list)
    for (const one of definitions.checked(kind, received[list] ?? []).unapproved) found.push({ kind, ...one })
  }
  return found
}

/** Returns the pages of a backend that are, or are not, approved as they were last read. */
const listPages = ({ definitions }: Backend, areApproved: boolean): readonly Found[] =>
  [...definitions.pages.entries()].flatMap(([name, state]) => {
    if ((state === 'approved') !== areApproved) return []
    return [{ kind: 'pages' as const, name, reason: state === 'changed' ? state : 'unpinned' }]
  })

/**
 * Counts the definitions of a backend by their names; null if it has no pins. `variants`: the callers' own instances of
 * the backend. A name that is approved in one instance and not in another counts as both.
 */
export function definitionCounts(
  backend: Backend,
  variants: readonly Backend[],
): NonNullable<BackendStatus['definitions']> | null {
  const { pins, areEnforced } = backend.definitions
  if (pins === undefined) return null
  const all = [backend, ...variants]
  const unapproved = collectUnapproved(backend, variants).length
  const isListed = all.some(({ received }) => received.tools !== undefined)
  return {
    approved: new Set(all.flatMap(approvedNames)).size + listPages(backend, true).length,
    withheld: areEnforced ? unapproved : 0,
    reported: areEnforced ? 0 : unapproved,
    missing: isListed ? missingPins(pins, all).length : 0,
  }
}

/** Returns the names that have pins and that no instance of the backend lists. */
export const missingPins = (pins: Pins, instances: readonly Backend[]) =>
  PINNED_KINDS.flatMap((list) => {
    const kind = toPinKind(list)
    const listed = new Set(instances.flatMap(({ received }) => (received[list] ?? []).map(({ key }) => key)))
    return [...pins.names(kind)].filter((name) => !listed.has(name)).map((name) => ({ kind, name }))
  })

/** Returns the names of the backend's approved definitions, each with its kind. */
function approvedNames(backend: Backend): readonly string[] {
  const { received, definitions } = backend
  const isInstructed =
    received.instructions !== undefined && definitions.reasonAgainstInstructions(received.instructions) === undefined
  const unapproved = new Set(listUnapproved(backend).map(({ kind, name }) => `${kind} ${name}`))
  const names = PINNED_KINDS.flatMap((kind) => (received[kind] ?? []).map(({ key }) => `${toPinKind(kind)} ${key}`))
  return [...(isInstructed ? ['instructions'] : []), ...names.filter((name) => !unapproved.has(name))]
}

/** Returns the definitions that are unapproved in any instance of the backend, each name once. */
function collectUnapproved(backend: Backend, variants: readonly Backend[]): readonly Found[] {
  const found = new Map<string, Found>()
  for (const one of [...[backend, ...variants].flatMap(listUnapproved), ...listPages(backend, false)])
    found.set(`${one.kind} ${one.name}`, one)
  return [...found.values()]
}

const NOUNS: Readonly<Record<PinKind, string>> = {
  instructions: 'instructions',
  tools: 'tools',
  prompts: 'prompts',
  resources: 'resources',
  resourceTemplates: 'resource templates',
  pages: 'pages',
}

/**
 * Returns the problem with a backend's definitions; undefined if there is none. The text contains only names, so that
 * it stays the same while a definition keeps changing.
 */
export function definitionProblem(
  backend: Backend,
  variants: readonly Backend[],
): { readonly code: 'DefinitionWithheld' | 'DefinitionReported'; readonly message: string } | undefined {
  if (backend.definitions.pins === undefined) return undefined
  const found = collectUnapproved(backend, variants)
  if (found.length === 0) return undefined
  const { areEnforced } = backend.definitions
  const shown = found.toSorted((a, b) => (keyWithout(a) < keyWithout(b) ? -1 : 1)).slice(0, MOST_NAMES)
  const byKind = Map.groupBy(shown, ({ kind }) => kind)
  const named = [...byKind].map(([kind, ones]) =>
    kind === 'instructions' ? NOUNS[kind] : `${NOUNS[kind]} ${ones.map(({ name }) => quoteName(name)).join(', ')}`,
  )
  const more = found.length > shown.length ? ` and ${found.length - shown.length} more` : ''
  const are = found.length === 1 ? '1 definition is' : `${found.length} definitions are`
  const what = areEnforced ? `${are} withheld` : `${are} not approved`
  return {
    code: areEnforced ? 'DefinitionWithheld' : 'DefinitionReported',
    message: `${backend.name}: ${what}: ${named.join('; ')}${more}`,
  }
}

const keyWithout = ({ kind, name }: Found): string => `${kind} ${name}`

/** Returns a name as cut ASCII text with escapes, because the backend chose it. */
function plainName(name: string): string {
  const cut = name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME)}…` : name
  return JSON.stringify(cut)
    .slice(1, -1)
    .replace(/[^\x20-\x7e]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

const quoteName = (name: string): string => `"${plainName(name)}"`
