import { SourceError } from '../format/source-error.ts'

export interface TreeEntry {
  readonly kind: 'file' | 'link' | 'folder' | 'submodule'
  /** The id of the object. For a submodule it is a commit of another repository. */
  readonly id: string
}

export interface Tree {
  /** Finds an entry; undefined if there is none of this path. */
  entry(path: string): Promise<TreeEntry | undefined>
  /** Lists the names in a folder, '' for the root; undefined if there are too many. */
  names(folder: string): Promise<readonly string[] | undefined>
  target(id: string): Promise<string>
}

/** The most links on one path, the same as in Linux. */
const MOST_LINKS = 40

const folded = (name: string) => name.normalize('NFC').toLowerCase()

/**
 * Finds the object id of a path's file in a commit. Follows links that stay in the repository. Throws a SourceError.
 */
export async function findFile(path: string, tree: Tree): Promise<string> {
  const way: Way = { path, tree, ahead: namesIn(path), folders: [], over: undefined, links: 0 }
  for (let name = way.ahead.shift(); name !== undefined; name = way.ahead.shift()) {
    const found = name === '..' ? goUp(way) : await follow(way, name)
    if (found !== undefined) return found
  }
  throw blocked(way, `${way.folders.join('/') || 'the path'} is a folder: name a file in it`)
}

interface Way {
  readonly path: string
  readonly tree: Tree
  ahead: string[]
  readonly folders: string[]
  /** The last link, for error messages. */
  over: string | undefined
  links: number
}

const namesIn = (path: string) => path.split('/').filter((name) => name !== '' && name !== '.')

const blocked = ({ path, over }: Way, message: string) =>
  new SourceError('file_missing', over === undefined ? message : `${path} leads over the link ${over}, and ${message}`)

function outside({ path, over }: Way): SourceError {
  const where = 'out of the repository, where nothing is read'
  const message =
    over === undefined
      ? `${path} leads ${where}`
      : `${path} leads over the link ${over} ${where}: commit the file itself in its place`
  return new SourceError('file_missing', message)
}

function goUp(way: Way): undefined {
  if (way.folders.pop() === undefined) throw outside(way)
}

async function follow(way: Way, name: string): Promise<string | undefined> {
  const at = [...way.folders, name].join('/')
  const entry = name.includes('\0') ? undefined : await way.tree.entry(at)
  if (entry === undefined) throw blocked(way, await absent(way, name))
  switch (entry.kind) {
    case 'folder':
      way.folders.push(name)
      return undefined
    case 'link':
      await followLink(way, at, entry.id)
      return undefined
    case 'submodule':
      throw blocked(
        way,
        `${at} is a submodule, whose files are in a repository of its own: name that one as repository, and the path in it`,
      )
    default:
      if (way.ahead.length > 0) throw blocked(way, `${at} is a file of the commit, no folder`)
      return entry.id
  }
}

async function followLink(way: Way, at: string, id: string): Promise<void> {
  if (++way.links > MOST_LINKS)
    throw new SourceError('file_missing', `${way.path} leads in a circle, over the link ${at}`)
  way.over = at
  const target = await way.tree.target(id)
  if (target.startsWith('/')) throw outside(way)
  way.ahead = [...namesIn(target), ...way.ahead]
}

async function absent({ tree, folders, ahead }: Way, name: string): Promise<string> {
  const before = folders.map((folder) => `${folder}/`).join('')
  const whole = `the commit has no file ${before}${[name, ...ahead].join('/')}`
  const said = ahead.length === 0 ? whole : `${whole}: there is no ${before}${name}`
  const names = await tree.names(folders.join('/'))
  const twin = names?.find((other) => folded(other) === folded(name))
  return twin === undefined ? said : `${said}, but ${twin}, whose name differs by case alone`
}
