import { execFileSync, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

/** A repository that git's own smart HTTP backend serves on loopback. */
export interface GitServer {
  /** URL of the repository. */
  readonly url: string
  /** Another URL of the same repository, which has its own clone in a registry. */
  urlOf(name: string): string
  /** Path of the same repository. */
  readonly fileUrl: string
  /** Serves it as plain files (the dumb protocol) too; each commit updates them. */
  plain(): Promise<{ readonly url: string; close(): Promise<void> }>
  /** `path?query` of each request so far. */
  readonly requests: string[]
  /** Number of bytes of all answers so far. */
  served(): number
  /** Sets an option of the repository, such as `uploadpack.allowFilter`. */
  set(key: string, value: string): void
  /** Runs git in the work tree as a commit's author, and returns its output. */
  run(...args: readonly string[]): string
  readonly folder: string
  /** Commits these files on a branch, and returns the commit's id. */
  commit(files: Readonly<Record<string, string>>, branch?: string): string
  tag(name: string, commit: string): void
  /** Requires `user:password` from now on; undefined allows everybody. */
  protect(credentials: string | undefined): void
  close(): Promise<void>
}

export async function startGitServer(): Promise<GitServer> {
  const root = mkdtempSync(join(tmpdir(), 'portico-git-'))
  const work = join(root, 'work')
  const requests: string[] = []
  let credentials: string | undefined
  let served = 0
  const git = (...args: string[]) =>
    execFileSync('git', ['-C', work, '-c', 'user.name=t', '-c', 'user.email=t@example.com', ...args], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    }).trim()
  execFileSync('git', ['init', '--quiet', '--initial-branch=main', work])

  const server = createServer((request, response) => {
    requests.push(request.url ?? '')
    const expected = credentials && `Basic ${Buffer.from(credentials).toString('base64')}`
    if (expected !== undefined && request.headers.authorization !== expected) {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end()
      return
    }
    answer(work, request, response, (bytes) => {
      served += bytes
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))

  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    url: `${origin}/.git`,
    urlOf: (name) => `${origin}/copy-${name}/.git`,
    fileUrl: `file://${work}/.git`,
    async plain() {
      git('update-server-info')
      const files = createServer((request, response) => {
        readFile(join(root, new URL(request.url ?? '', 'http://localhost').pathname)).then(
          (bytes) => response.end(bytes),
          () => response.writeHead(404).end(),
        )
      })
      await new Promise<void>((resolve) => files.listen(0, '127.0.0.1', resolve))
      return {
        url: `http://127.0.0.1:${(files.address() as AddressInfo).port}/work/.git`,
        async close() {
          files.closeAllConnections()
          await new Promise((resolve) => files.close(resolve))
        },
      }
    },
    requests,
    served: () => served,
    set: (key, value) => void git('config', key, value),
    run: git,
    folder: work,
    commit(files, branch = 'main') {
      if (git('branch', '--show-current') !== branch) git('checkout', '--quiet', '-B', branch)
      for (const [name, text] of Object.entries(files)) {
        mkdirSync(dirname(join(work, name)), { recursive: true })
        writeFileSync(join(work, name), text)
      }
      git('add', '--all')
      git('commit', '--quiet', '--allow-empty', '-m', 'change')
      git('update-server-info')
      return git('rev-parse', 'HEAD')
    },
    tag: (name, commit) => void git('tag', '--annotate', '-m', name, name, commit),
    protect(wanted) {
      credentials = wanted
    },
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      rmSync(root, { recursive: true, force: true })
    },
  }
}

/** Runs `git http-backend` as CGI (RFC 3875). */
function answer(
  root: string,
  request: IncomingMessage,
  response: ServerResponse,
  onServed: (bytes: number) => void,
): void {
  const url = new URL(request.url ?? '', 'http://localhost')
  const child = spawn('git', ['http-backend'], {
    env: {
      ...process.env,
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: '1',
      PATH_INFO: url.pathname.replace(/^\/copy-\w+/, ''),
      QUERY_STRING: url.search.slice(1),
      REQUEST_METHOD: request.method,
      CONTENT_TYPE: request.headers['content-type'] ?? '',
      HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
      GIT_PROTOCOL: (request.headers['git-protocol'] as string) ?? '',
      REMOTE_ADDR: '127.0.0.1',
    },
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  request.pipe(child.stdin)
  let head = Buffer.alloc(0)
  let started = false
  child.stdout.on('data', (chunk: Buffer) => {
    onServed(chunk.length)
    if (started) {
      response.write(chunk)
      return
    }
    head = Buffer.concat([head, chunk])
    const end = head.indexOf('\r\n\r\n')
    if (end < 0) return
    const headers = head
      .subarray(0, end)
      .toString()
      .split('\r\n')
      .map((line) => line.split(': ') as [string, string])
    const status = headers.find(([name]) => name === 'Status')?.[1]
    response.writeHead(
      status === undefined ? 200 : Number.parseInt(status, 10),
      headers.filter(([name]) => name !== 'Status').flat(),
    )
    started = true
    response.write(head.subarray(end + 4))
  })
  child.stdout.on('end', () => response.end())
}
