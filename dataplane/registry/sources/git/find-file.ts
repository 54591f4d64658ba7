import { SourceError } from '../format/source-error.ts'

/** What a folder of a commit has under a name. */
export interface TreeEntry {
  readonly kind: 'file' | 'link' | 'folder' | 'submodule'
  /** Of the object; of a submodule a commit of another repository. */
  readonly id: string
}

/** The folders and links of a commit. */
export interface Tree {
  /** Undefined where there is none of this path. */
  entry(path: string): Promise<TreeEntry | undefined>
  /** Names in a folder, '' for the whole; undefined where there are too many to look at. */
  names(folder: string): Promise<readonly string[] | undefined>
  /** Where a link points. */
  target(id: string): Promise<string>
}

/** Links that one path may lead over, as many as Linux follows. */
const MOST_LINKS = 40

const folded = (name: string) => name.normalize('NFC').toLowerCase()

/**
 * The object id of the file that a path leads to in a commit, over links as long as they stay in the repository. Throws a
 * SourceError that says what is in the way.
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
  /** Names that are still to be followed. */
  ahead: string[]
  readonly folders: string[]
  /** The last link, for those who look for what is wrong. */
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

/** Goes one name further; gives the id of the file where that is the end. */
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
