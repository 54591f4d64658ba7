import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { definitionDigest, instructionsDigest, pageDigest } from '../../../crds/settings/definition-digest.ts'
import { isObject } from '../../../crds/settings/json.ts'
import type { PinningConfig } from '../../config/gateway.ts'
import { runInSlices, type Steps } from '../limits/slices.ts'
import { type PinKind, Pins, type Reason } from './pins.ts'

interface Definition {
  readonly key: string
  /** The JSON text that is shown. */
  readonly text: string
  /** The JSON text as the backend sent it, if it was repaired. */
  readonly source?: string | undefined
}

type ListedKind = Extract<PinKind, 'tools' | 'prompts' | 'resources' | 'resourceTemplates'>

export interface Unapproved {
  readonly name: string
  readonly reason: Reason
}

/** A list after the check against the pins. */
export interface CheckedList<T extends Definition> {
  readonly shown: readonly T[]
  /** The items that are not shown, in order. */
  readonly withheld: readonly T[]
  readonly unapproved: readonly Unapproved[]
}

const NOTHING: readonly never[] = []
const PAGE = /^ui:/i
/** The most pages whose state is remembered. */
const MOST_PAGES = 256
const digests = new WeakMap<Definition, string | false>()

/** Returns the digest of a definition as the backend sent it; undefined if it has none. Computed once for each item. */
export function computeDigest(definition: Definition): string | undefined {
  let digest = digests.get(definition)
  if (digest === undefined) {
    digest = definitionDigest(definition.source ?? definition.text) ?? false
    digests.set(definition, digest)
  }
  return digest === false ? undefined : digest
}

/** Computes the digests of a list in turns, because those of a list of 12 MB take half a second. */
export const digestInSlices = (list: readonly Definition[]): Promise<void> => runInSlices(digestSteps(list))

function* digestSteps(list: readonly Definition[]): Steps<void> {
  for (const item of list) {
    computeDigest(item)
    yield
  }
}

/** Returns the item to show if it is approved, else the reason why it is not. */
function checkItem<T extends Definition>(pins: Pins, kind: ListedKind, item: T): T | Reason {
  if (kind !== 'resources' || pins.unlisted(kind) !== 'bare' || pins.has(kind, item.key))
    return pins.reasonAgainst(kind, item.key, computeDigest(item)) ?? item
  const text = bareResource(item.text)
  return text === undefined ? 'unpinned' : { ...item, text, source: item.source ?? item.text }
}

/** Checks the definitions of one backend against its pins. Every definition that reaches a client passes through it. */
export class Definitions {
  /** The current pins; undefined if there are none. */
  pins: Pins | undefined
  #key = ''
  #checked = new WeakMap<readonly Definition[], CheckedList<Definition>>()
  /** The pages that were read last, by URI, with the reason why they are not approved. */
  readonly pages = new LRUCache<string, Reason | 'approved'>({ max: MOST_PAGES })
  #instructions: { readonly text: string; readonly reason: Reason | undefined } | undefined

  constructor(config?: PinningConfig) {
    this.follow(config)
  }

  /** Replaces the pins. Returns whether they differ. */
  follow(config: PinningConfig | undefined): boolean {
    const key = config === undefined ? '' : hash('sha256', JSON.stringify(config))
    if (key === this.#key) return false
    this.#key = key
    this.pins = config === undefined ? undefined : new Pins(config)
    this.#checked = new WeakMap()
    this.#instructions = undefined
    this.pages.clear()
    return true
  }

  /**
   * Returns the new list to use in place of `before`. Unchanged items are reused, and the digests of the others are
   * computed in turns.
   */
  async takeOver<T extends Definition>(before: readonly T[] | undefined, list: readonly T[]): Promise<readonly T[]> {
    if (this.pins === undefined) return list
    const items = withKnownItems(before, list)
    await digestInSlices(items)
    return items
  }

  /** True if unapproved definitions are withheld. */
  get areEnforced(): boolean {
    return this.pins?.isEnforced === true
  }

  /** Returns the items of a list that are shown: the same list if all are. */
  shown<T extends Definition>(kind: ListedKind, list: readonly T[]): readonly T[] {
    return this.areEnforced ? this.checked(kind, list).shown : list
  }

  withheld<T extends Definition>(kind: ListedKind, list: readonly T[]): readonly T[] {
    return this.areEnforced ? this.checked(kind, list).withheld : NOTHING
  }

  /** Checks a list against the pins. The result is computed once for each list. */
  checked<T extends Definition>(kind: ListedKind, list: readonly T[]): CheckedList<T> {
    const known = this.#checked.get(list)
    // Lists of different kinds are different objects, so the type is right.
    if (known !== undefined) return known as CheckedList<T>
    const checked = this.#check(kind, list)
    this.#checked.set(list, checked)
    return checked
  }

  #check<T extends Definition>(kind: ListedKind, list: readonly T[]): CheckedList<T> {
    const { pins } = this
    if (pins === undefined) return { shown: list, withheld: NOTHING, unapproved: NOTHING }
    const shown: T[] = []
    const withheld: T[] = []
    const unapproved: Unapproved[] = []
    for (const item of list) {
      const verdict = checkItem(pins, kind, item)
      if (typeof verdict !== 'string') shown.push(pins.isEnforced ? verdict : item)
      else {
        unapproved.push({ name: item.key, reason: verdict })
        ;(pins.isEnforced ? withheld : shown).push(item)
      }
    }
    const isWhole = shown.length === list.length && shown.every((item, index) => item === list[index])
    return { shown: isWhole ? list : shown, withheld, unapproved }
  }

  /** Returns the reason why an item of a list is not approved; undefined if it is. */
  reasonAgainst(kind: ListedKind, item: Definition): Reason | undefined {
    const verdict = this.pins === undefined ? item : checkItem(this.pins, kind, item)
    return typeof verdict === 'string' ? verdict : undefined
  }

  shownInstructions(text: string | undefined): string | undefined {
    return this.areEnforced && this.reasonAgainstInstructions(text) !== undefined ? undefined : text
  }

  /** Returns the reason why instructions are not approved; undefined if they are, or there are none. */
  reasonAgainstInstructions(text: string | undefined): Reason | undefined {
    if (text === undefined || this.pins === undefined) return undefined
    if (this.#instructions?.text !== text)
      this.#instructions = { text, reason: this.pins.reasonAgainst('instructions', '', instructionsDigest(text)) }
    return this.#instructions.reason
  }

  /** Returns the reason why an app's page is not approved, given the `contents` of its read; undefined if it is. */
  reasonAgainstPage(uri: string, contents: string | undefined): Reason | undefined {
    return this.pins?.reasonAgainst('pages', uri, contents === undefined ? undefined : pageDigest(contents))
  }

  /** Tells whether a URI belongs to an app's page, by its scheme (SEP-1865) or because it is pinned as a page. */
  isPage(uri: string): boolean {
    return PAGE.test(uri) || this.pins?.has('pages', uri) === true
  }

  /** True if unlisted resources of the backend may be read. */
  get showsUnlistedResources(): boolean {
    return !this.areEnforced || this.pins?.unlisted('resources') === 'allow'
  }
}

/** Returns `list` with equal items of `before` in place of its own, because their digests are known. */
function withKnownItems<T extends Definition>(before: readonly T[] | undefined, list: readonly T[]): readonly T[] {
  if (before === undefined || before.length === 0) return list
  const known = new Map(before.map((item) => [item.source ?? item.text, item]))
  return list.map((item) => {
    const same = known.get(item.source ?? item.text)
    return same !== undefined && same.text === item.text ? same : item
  })
}

const LONGEST_URI = 2048
const PLAIN_URI = /^[\x21-\x7e]+$/
const LONGEST_NAME = 64
const OTHER = /[^A-Za-z0-9_.-]/g
const DIGEST = 8
const MEDIA_TYPE = /^[A-Za-z0-9!#$&^_.+-]{1,64}\/[A-Za-z0-9!#$&^_.+-]{1,64}$/

/**
 * Returns a listed resource with only its URI, safe name and media type, without text that a model reads; undefined for
 * an unusual URI.
 */
function bareResource(text: string): string | undefined {
  const value: unknown = JSON.parse(text)
  if (!isObject(value)) return undefined
  const { uri, name, mimeType } = value
  if (typeof uri !== 'string' || uri.length > LONGEST_URI || !PLAIN_URI.test(uri)) return undefined
  const isType = typeof mimeType === 'string' && MEDIA_TYPE.test(mimeType)
  return JSON.stringify({ uri, name: safeName(name), ...(isType ? { mimeType } : {}) })
}

function safeName(name: unknown): string {
  const given = typeof name === 'string' ? name : ''
  const plain = given.replace(OTHER, '_')
  if (plain === given && plain !== '' && plain.length <= LONGEST_NAME) return plain
  return `${plain.slice(0, LONGEST_NAME - DIGEST - 1)}_${hash('sha256', given).slice(0, DIGEST)}`
}
