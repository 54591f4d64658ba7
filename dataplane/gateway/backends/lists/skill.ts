import { isObject } from '../../../../crds/settings/json.ts'
import { hasSkillScheme, isCanonicalSkill, MANIFEST, spellingKey } from '../../mcp/skills.ts'
import type { ListRoom } from './list-memory.ts'
import { type BackendItem, type ListPage, type NewEntry, readPage } from './list-page.ts'

/** The limits of one backend's list of skills: pages, entries, and characters of JSON text. */
export const skillLimits = { pages: 50, skills: 2_000, text: 16 * 1024 * 1024 } as const

/** Limits of one skill (SEP-2640), and of the data that the gateway stores for it. */
const MOST_FILES = 512
const MOST_BYTES = 16 * 1024 * 1024
const LARGEST_FRONTMATTER = 64 * 1024
const DEEPEST = 32
const NAME = /^[a-z0-9]+(?:-[a-z0-9]+)*$/
const LONGEST_NAME = 64
const LONGEST_DESCRIPTION = 1024
const DIGEST = /^sha256:[0-9a-f]{64}$/

const SKILLS = { member: 'skills', key: 'uri', noun: 'skill' } as const

/**
 * Reads the pages of one backend's `skills/list`. Omits an entry that breaks a rule or limit of the extension, and one
 * with the URI of an earlier entry. The list ends at the first entry that does not fit into memory.
 */
export class SkillReader {
  readonly #room: ListRoom
  readonly #seen = new Set<string>()
  #entries = 0
  #length = 0

  constructor(room: ListRoom) {
    this.#room = room
  }

  /** Reads a page. Throws a TypeError if the answer contains no list. */
  read(answer: string): ListPage<BackendItem> {
    return readPage(answer, SKILLS, (entry) => this.#take(entry), { fits: this.#fits })
  }

  #take(entry: NewEntry): BackendItem | string {
    const key = spellingKey(entry.key) ?? entry.key
    if (this.#seen.has(key)) return 'an earlier skill has its uri'
    const item = readSkill(entry)
    if (typeof item !== 'string') this.#seen.add(key)
    return item
  }

  readonly #fits = (textLength: number): boolean => {
    this.#entries++
    this.#length += textLength
    if (this.#entries > skillLimits.skills || this.#length > skillLimits.text) this.#room.end()
    return this.#room.fits(textLength)
  }
}

/** Returns a skill, or the rule that omits it. */
export function readSkill({ key: uri, text, value }: NewEntry): BackendItem | string {
  const { frontmatter, resources } = value
  const root = findRoot(uri)
  if (root === undefined) return 'its uri must be the canonical one of a SKILL.md in a named folder'
  const broken = brokenFrontmatter(frontmatter, root) ?? brokenMeta(value['_meta'])
  if (broken !== undefined) return broken
  const files = resources === 'dynamic' ? [uri] : readFiles(resources, uri, root)
  if (typeof files === 'string') return files
  const own = hasSkillScheme(uri) ? files.filter((file) => spellingKey(file) !== undefined) : files
  const { name } = frontmatter as { readonly name: string }
  return { key: uri, text, skill: { name, root, files: own } }
}

function findRoot(uri: string): string | undefined {
  if (!uri.endsWith(MANIFEST) || (hasSkillScheme(uri) && !isCanonicalSkill(uri)) || !URL.canParse(uri)) return undefined
  if (/[#?\s]/.test(uri)) return undefined
  const root = uri.slice(0, -MANIFEST.length)
  return lastSegment(root) === '' ? undefined : root
}

const lastSegment = (uri: string): string => uri.slice(uri.lastIndexOf('/') + 1)

function brokenFrontmatter(frontmatter: unknown, root: string): string | undefined {
  if (!isObject(frontmatter)) return 'frontmatter must be an object'
  if (Object.hasOwn(frontmatter, '__proto__')) return 'frontmatter must not have __proto__'
  const { name, description } = frontmatter
  if (typeof name !== 'string' || name.length > LONGEST_NAME || !NAME.test(name))
    return 'frontmatter.name must be 1 to 64 small letters, digits and single hyphens'
  if (name !== lastSegment(root)) return 'frontmatter.name must be the name of its folder'
  if (typeof description !== 'string' || description === '' || [...description].length > LONGEST_DESCRIPTION)
    return 'frontmatter.description must have 1 to 1024 characters'
  if (!isNoDeeper(frontmatter, DEEPEST)) return `frontmatter is nested deeper than ${DEEPEST}`
  if (Buffer.byteLength(JSON.stringify(frontmatter)) > LARGEST_FRONTMATTER) return 'frontmatter is larger than 64 KiB'
  return undefined
}

const brokenMeta = (meta: unknown): string | undefined =>
  meta === undefined || isObject(meta) ? undefined : '_meta must be an object'

function isNoDeeper(value: unknown, most: number): boolean {
  if (typeof value !== 'object' || value === null) return true
  return most > 0 && Object.values(value).every((inner) => isNoDeeper(inner, most - 1))
}

/** Returns the URIs of a skill's files, or the rule that they break. */
function readFiles(resources: unknown, uri: string, root: string): readonly string[] | string {
  if (!Array.isArray(resources)) return 'resources must be a list, or "dynamic"'
  if (resources.length > MOST_FILES) return `it has more than ${MOST_FILES} files`
  const seen = new Set<string>()
  let bytes = 0
  for (const file of resources) {
    const broken = brokenFile(file, root)
    if (broken !== undefined) return broken
    const { uri: own, size } = file as { readonly uri: string; readonly size: number }
    const key = spellingKey(own) ?? own
    if (seen.has(key)) return 'resources holds a uri twice'
    seen.add(key)
    bytes += size
  }
  if (bytes > MOST_BYTES) return 'its files are larger than 16 MiB'
  if (!seen.has(spellingKey(uri) ?? uri)) return 'resources must hold its SKILL.md'
  return resources.map((file: { readonly uri: string }) => file.uri)
}

function brokenFile(file: unknown, root: string): string | undefined {
  if (!isObject(file) || typeof file['uri'] !== 'string') return 'resources must hold files with a uri'
  const { uri, digest, size } = file
  if (typeof digest !== 'string' || !DIGEST.test(digest)) return 'a digest must be sha256: and 64 small hex digits'
  if (typeof size !== 'number' || !Number.isSafeInteger(size) || size < 0) return 'a size must be a number of bytes'
  if (!uri.startsWith(`${root}/`) || !isPlainPath(uri.slice(root.length + 1)))
    return 'a file must lie in the folder of the skill'
  if (hasSkillScheme(uri) && !isCanonicalSkill(uri)) return 'the uri of a file must be the canonical one'
  return undefined
}

/** Tells whether a path has only plain segments, without a query or fragment after them. */
function isPlainPath(path: string): boolean {
  if (/[#?\s]|%2f|%5c|%00/i.test(path)) return false
  return path.split('/').every((segment) => segment !== '' && !/^(?:\.|%2e){1,2}$/i.test(segment))
}
