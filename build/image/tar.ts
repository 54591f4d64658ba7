/** Writes tar archives whose bytes depend on their content alone: sorted, numeric owners, one fixed time. */

export interface TarEntry {
  /** Path without a leading slash; that of a folder needs no slash at its end. */
  readonly path: string
  readonly type: 'file' | 'folder' | 'link'
  readonly mode: number
  readonly content?: Uint8Array
  readonly target?: string
  readonly owner?: number
}

/** Makes the entry of a file. */
export const fileEntry = (path: string, content: Uint8Array, mode = 0o644): TarEntry => ({
  path,
  type: 'file',
  mode,
  content,
})

const BLOCK = 512
const typeFlags = { file: '0', folder: '5', link: '2' }

/** Splits a path into the two fields of a ustar header (POSIX.1-1988): at most 155 and 100 bytes, cut at a slash. */
function splitPath(path: string): readonly [prefix: string, name: string] {
  if (path.length <= 100) return ['', path]
  const cut = path.indexOf('/', path.length - 101)
  if (cut < 1 || cut > 155) throw new RangeError(`the path is too long for a tar archive: ${path}`)
  return [path.slice(0, cut), path.slice(cut + 1)]
}

function formatHeader({ path, type, mode, content, target = '', owner = 0 }: TarEntry): Buffer {
  const block = Buffer.alloc(BLOCK)
  const octal = (value: number, digits: number) => value.toString(8).padStart(digits, '0')
  const [prefix, name] = splitPath(type === 'folder' ? `${path}/` : path)
  if (target.length > 100) throw new RangeError(`the link's target is too long for a tar archive: ${target}`)
  block.write(name, 0)
  block.write(octal(mode, 7), 100)
  block.write(octal(owner, 7), 108)
  block.write(octal(owner, 7), 116)
  block.write(octal(content?.length ?? 0, 11), 124)
  block.write(octal(0, 11), 136)
  block.write(' '.repeat(8), 148)
  block.write(typeFlags[type], 156)
  block.write(target, 157)
  block.write('ustar\x0000', 257)
  block.write(prefix, 345)
  const sum = block.reduce((total, byte) => total + byte, 0)
  block.write(`${octal(sum, 6)}\0 `, 148)
  return block
}

/** Returns the parent folders that have no entry: some readers create them with modes of their own. */
function findMissingFolders(entries: ReadonlyMap<string, TarEntry>): TarEntry[] {
  const missing = new Set<string>()
  for (const path of entries.keys()) {
    const parts = path.split('/').slice(0, -1)
    while (parts.length > 0) {
      const folder = parts.join('/')
      if (!entries.has(folder)) missing.add(folder)
      parts.pop()
    }
  }
  return [...missing].map((path) => ({ path, type: 'folder', mode: 0o755 }))
}

/** Packs entries; the last one of a path counts. Throws a RangeError if a path is too long. */
export function tar(given: Iterable<TarEntry>): Buffer {
  const entries = new Map<string, TarEntry>()
  for (const entry of given) entries.set(entry.path, entry)
  const all = [...entries.values(), ...findMissingFolders(entries)].sort((a, b) => (a.path < b.path ? -1 : 1))
  const parts: Uint8Array[] = []
  for (const entry of all) {
    parts.push(formatHeader(entry))
    if (!entry.content?.length) continue
    parts.push(entry.content)
    const rest = entry.content.length % BLOCK
    if (rest > 0) parts.push(Buffer.alloc(BLOCK - rest))
  }
  parts.push(Buffer.alloc(2 * BLOCK))
  return Buffer.concat(parts)
}
