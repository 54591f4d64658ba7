import { readUpdatedUri } from '../backends/session/resource-watch.ts'
import { editObject, paramsText, parseBytes } from '../mcp/json.ts'
import { SKILL_SCHEME } from '../mcp/skills.ts'

/** The scheme of pages of apps (MCP Apps). */
export const PAGE_SCHEME = 'ui://'

/**
 * Maps the URIs of one backend's resources to those that clients know. URIs of skills always get the backend's name as
 * first segment, so that they stay the same when other servers are added. Pages of apps get it only if another backend
 * has the same URI.
 */
export class UriNames {
  readonly #prefix: string | undefined
  /** The shown URIs of renamed pages by own URI, and the reverse. */
  readonly #pages = new Map<string, string>()
  readonly #ownPages = new Map<string, string>()

  /** @param skillsOf the name of the backend if it has skills; undefined otherwise */
  constructor(skillsOf: string | undefined) {
    this.#prefix = skillsOf === undefined ? undefined : `${SKILL_SCHEME}${skillsOf}/`
  }

  /** True if any URI differs. */
  get areNeeded(): boolean {
    return this.#prefix !== undefined || this.#pages.size > 0
  }

  /** Assigns another URI to a page. */
  renamePage(own: string, shown: string): void {
    this.#pages.set(own, shown)
    this.#ownPages.set(shown, own)
  }

  /** Returns the URI that clients know for one of the backend's URIs. */
  readonly shown = (uri: string): string => {
    if (this.#prefix !== undefined && uri.startsWith(SKILL_SCHEME)) return this.#prefix + uri.slice(SKILL_SCHEME.length)
    return this.#pages.get(uri) ?? uri
  }

  /** Returns the backend's URI for one that clients know. */
  readonly own = (uri: string): string => {
    if (this.#prefix !== undefined && uri.startsWith(this.#prefix)) return SKILL_SCHEME + uri.slice(this.#prefix.length)
    return this.#ownPages.get(uri) ?? uri
  }
}

/** Returns a backend's message. If it reports a changed resource, its URI is replaced by the one that clients know. */
export function renamedUpdate(bytes: Buffer, names: UriNames | undefined): Buffer {
  const uri = names === undefined ? undefined : readUpdatedUri(parseBytes(bytes))
  const shown = uri === undefined ? undefined : names?.shown(uri)
  if (shown === undefined || shown === uri) return bytes
  const text = bytes.toString('utf8')
  return Buffer.from(editObject(text, { params: editObject(paramsText(text), { uri: JSON.stringify(shown) }) }))
}
