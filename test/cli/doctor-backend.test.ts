/** Tests `portico doctor backend` with correct and with faulty servers. */
import { writeFile } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { dispatch } from '../../cli/dispatch.ts'
import { temporaryFolder } from '../support/folder.ts'
import { startMcpServer } from '../support/servers/dual-server.ts'
import { type RawServerOptions, startRawServer, tool } from '../support/servers/raw-server.ts'
import { startSseServer } from '../support/servers/sse-server.ts'

interface Finding {
  readonly severity: string
  readonly check: string
  readonly message: string
  readonly fix?: string
}

async function doctor(...args: string[]) {
  let out = ''
  const code = await dispatch(['doctor', 'backend', ...args], {
    out: (text) => void (out += text),
    err: (line) => void (out += line),
    env: {},
    stop: new AbortController().signal,
  })
  return { code, out }
}

async function diagnose(...args: string[]) {
  const { code, out } = await doctor(...args, '--output', 'json')
  const [backend] = (JSON.parse(out) as { backends: (object & { findings: Finding[] })[] }).backends
  assert.ok(backend)
  const { findings, ...rest } = backend
  const odd = findings.filter(({ severity }) => severity !== 'ok')
  return { code, findings, odd, rest: rest as Record<string, unknown> }
}

test('doctor finds nothing wrong with servers of the official SDK, in either era', async () => {
  for (const [mode, era] of [
    ['sessions', 'session'],
    ['dual', 'stateless'],
  ] as const) {
    const server = await startMcpServer({ name: 'good', mode })
    try {
      const { code, odd, rest, findings } = await diagnose(server.url)
      assert.is(code, 0)
      assert.equal(odd, [])
      assert.is(rest['era'], era)
      assert.is(rest['revision'], era === 'session' ? '2025-11-25' : '2026-07-28')
      assert.ok((rest['lists'] as { tools: number }).tools > 3)
      assert.is(server.calls('tools/call').length, 0, 'no tool is called')
      if (era === 'session')
        assert.ok(findings.some(({ check, message }) => check === 'lost session' && message.includes('404')))
    } finally {
      await server.close()
    }
  }
})

test('doctor checks a server of HTTP+SSE', async () => {
  const server = await startSseServer()
  try {
    const { code, rest } = await diagnose(server.url, '--transport', 'sse')
    assert.is(code, 0)
    assert.is((rest['lists'] as { tools: number }).tools, 3)
  } finally {
    await server.close()
  }
})

/** Rewrites each answer of a server before it is sent. */
function rewriteAnswer(
  res: ServerResponse,
  edit: (head: { status: number; headers: Record<string, string | string[]> }, body: string) => string | Buffer,
): void {
  const writeHead = res.writeHead.bind(res)
  const end = res.end.bind(res)
  const head = { status: 200, headers: {} as Record<string, string | string[]> }
  res.writeHead = ((status: number, headers = {}) => {
    Object.assign(head, { status, headers: { ...(headers as object) } })
    return res
  }) as typeof res.writeHead
  res.end = ((body = '') => {
    const bytes = body === '' ? body : edit(head, String(body))
    writeHead(head.status, head.headers)
    return end(bytes)
  }) as typeof res.end
}

const inJson =
  (edit: (text: string) => string): NonNullable<RawServerOptions['before']> =>
  (_, res) => {
    rewriteAnswer(res, ({ status }, body) => (status === 200 ? edit(body) : body))
    return false
  }

const inHeaders =
  (edit: (headers: Record<string, string | string[]>) => void): NonNullable<RawServerOptions['before']> =>
  (_, res) => {
    rewriteAnswer(res, ({ headers }, body) => {
      edit(headers)
      return body
    })
    return false
  }

const NOTE = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}'

const ping =
  (status: number, text: string): NonNullable<RawServerOptions['before']> =>
  (request, res) => {
    if (request.message.method !== 'ping') return false
    res.writeHead(status, { 'content-type': 'application/json' })
    res.end(text.replace('ID', JSON.stringify(request.message.id)))
    return true
  }

const odd: Readonly<
  Record<string, readonly [Partial<RawServerOptions>, severity: string, check: string, message: RegExp]>
> = {
  'tools that are mended': [
    { tools: ['{"name":"t","title":null,"inputSchema":{}}'] },
    'note',
    'tools',
    /"t" is mended: /,
  ],
  'tools that are left out': [
    { tools: [tool('t'), '{"name":"u","inputSchema":{"type":"array"}}'] },
    'warning',
    'tools',
    /"u" is left out: /,
  ],
  'ids as text': [{ before: inJson((text) => text.replace(/"id":(\d+)/, '"id":"$1"')) }, 'note', 'id', /as text/],
  'an array of one': [{ before: inJson((text) => `[${text}]`) }, 'note', 'body', /array of one/],
  'an array of messages': [
    { before: inJson((text) => `[${NOTE},${text}]`) },
    'note',
    'body',
    /array of 2 messages: its own is taken/,
  ],
  'an unknown Content-Encoding': [
    { before: inHeaders((headers) => void (headers['content-encoding'] = 'utf-8')) },
    'note',
    'compression',
    /"utf-8", which there is not: read as it is/,
  ],
  'events without a message': [
    {
      before: ({ message }, res) => {
        if (message.method !== 'tools/list') return false
        res.writeHead(200, { 'content-type': 'text/event-stream' })
        res.write('data: keep alive\n\ndata: {}\n\n')
        res.end(`data: {"jsonrpc":"2.0","id":${message.id},"result":{"tools":[${tool('t')}]}}\n\n`)
        return true
      },
    },
    'note',
    'body',
    /events that hold no message: left out/,
  ],
  'null beside an answer': [
    { before: inJson((text) => text.replace('"result"', '"error":null,"result"')) },
    'note',
    'body',
    /error null beside the result: left out/,
  ],
  'members of a request': [
    { before: inJson((text) => text.replace('"result"', '"params":null,"result"')) },
    'note',
    'body',
    /members of a request/,
  ],
  'events without an end': [
    {
      before: ({ message }, res) => {
        if (message.method !== 'tools/list') return false
        res.writeHead(200, { 'content-type': 'text/event-stream' })
        res.end(`data: {"jsonrpc":"2.0","id":${message.id},"result":{"tools":[${tool('t')}]}}`)
        return true
      },
    },
    'note',
    'body',
    /no empty line behind it: read all the same/,
  ],
  'an answer on the stream': [
    {
      before: (() => {
        const streams = new Map<unknown, ServerResponse>()
        const waiting = new Map<unknown, string>()
        return ({ method, message, headers }, res) => {
          const session = headers['mcp-session-id']
          if (method === 'GET') {
            res.writeHead(200, { 'content-type': 'text/event-stream' })
            res.write(waiting.get(session) ?? ':\n\n')
            streams.set(session, res)
          } else if (message.method === 'tools/list') {
            const text = `data: {"jsonrpc":"2.0","id":${message.id},"result":{"tools":[${tool('t')}]}}\n\n`
            res.writeHead(202).end()
            if (streams.get(session)?.write(text) === undefined) waiting.set(session, text)
          } else return false
          return true
        }
      })(),
    },
    'note',
    'stream',
    /tools\/list is only accepted \(HTTP 202\): its answer is read from the stream/,
  ],
  'a request within a list': [
    {
      before: (() => {
        let end: (() => void) | undefined
        return ({ message }, res) => {
          if (message.method === undefined && message.id === 'q') {
            end?.()
            res.writeHead(202).end()
          } else if (message.method === 'tools/list') {
            res.writeHead(200, { 'content-type': 'text/event-stream' })
            res.write('data: {"jsonrpc":"2.0","id":"q","method":"ping"}\n\n')
            end = () => res.end(`data: {"jsonrpc":"2.0","id":${message.id},"result":{"tools":[${tool('t')}]}}\n\n`)
          } else return false
          return true
        }
      })(),
    },
    'note',
    'requests',
    /asks for ping before it answers tools\/list: answered/,
  ],
  'another session id in each answer': [
    {
      before: (() => {
        let answers = 0
        return inHeaders((headers) => {
          headers['mcp-session-id'] = `session-${++answers}`
        })
      })(),
    },
    'note',
    'session',
    /change the id of the session; the gateway sends the newest one/,
  ],
  'another jsonrpc': [
    { before: inJson((text) => text.replace('"jsonrpc":"2.0"', '"jsonrpc":"1.0"')) },
    'note',
    'body',
    /name jsonrpc "1.0": taken for "2.0"/,
  ],
  'no jsonrpc': [{ before: inJson((text) => text.replace('"jsonrpc":"2.0",', '')) }, 'note', 'body', /without jsonrpc/],
  'an id that is null': [
    { before: inJson((text) => text.replace(/"id":\d+/, '"id":null')) },
    'note',
    'id',
    /null: taken for that of the request/,
  ],
  'null members of a result': [
    { before: inJson((text) => text.replace('"result":{', '"result":{"_meta":null,')) },
    'note',
    'null',
    /_meta is null in the answer to [a-z]+\/?[a-z]*: the same as absent/,
  ],
  next_cursor: [
    { before: inJson((text) => text.replace('"tools":[', '"next_cursor":"2","tools":[')) },
    'warning',
    'lists',
    /next_cursor/,
  ],
  'a long session id': [
    {
      before: inHeaders((headers) => {
        if ('mcp-session-id' in headers) headers['mcp-session-id'] = `a b ${'x'.repeat(2000)}`
      }),
    },
    'note',
    'session',
    /2004 characters, with spaces/,
  ],
  'an empty session id': [
    { before: inHeaders((headers) => void (headers['mcp-session-id'] = '')) },
    'note',
    'session',
    /empty session id: the same as none/,
  ],
  'capabilities that are not declared': [
    { before: inJson((text) => text.replace('"capabilities":{"tools":{}}', '"capabilities":{"tools":true}')) },
    'note',
    'session',
    /declares tools by true/,
  ],
  'a JSON-RPC error at 500': [
    { before: ping(500, '{"jsonrpc":"2.0","id":ID,"error":{"code":-32603,"message":"out of order"}}') },
    'note',
    'status',
    /HTTP 500 and the JSON-RPC error .*out of order.*callers get it/,
  ],
  'a byte order mark': [{ before: inJson((text) => `\ufeff${text}`) }, 'note', 'body', /byte order mark/],
  'another success': [
    {
      before: (_, res) => {
        rewriteAnswer(res, (head, body) => {
          if (head.status === 200) head.status = 201
          return body
        })
        return false
      },
    },
    'note',
    'status',
    /HTTP 201/,
  ],
  'compressed answers': [
    {
      before: (_, res) => {
        rewriteAnswer(res, ({ headers }, body) => {
          headers['content-encoding'] = 'gzip'
          return gzipSync(body)
        })
        return false
      },
    },
    'note',
    'compression',
    /gzip/,
  ],
  'no ping': [
    { before: ping(200, '{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"?"}}') },
    'note',
    'ping',
    /-32601/,
  ],
  'a ping that fails': [{ before: ping(500, '{}') }, 'error', 'ping', /HTTP 500/],
  'sessions that are known, whatever they are': [
    { before: ping(200, '{"jsonrpc":"2.0","id":ID,"result":{}}') },
    'warning',
    'lost session',
    /not noticed/,
  ],
  'a redirect': [
    {
      before: ({ path }, res) => {
        if (path === '/mcp/') return false
        res.writeHead(308, { location: '/mcp/' }).end()
        return true
      },
    },
    'warning',
    'redirect',
    /followed/,
  ],
  'a stream that ends at once': [
    {
      before: ({ method }, res) => {
        if (method !== 'GET') return false
        res.writeHead(200, { 'content-type': 'text/event-stream' }).end()
        return true
      },
    },
    'warning',
    'stream',
    /ends at once/,
  ],
  'a probe that proves nothing': [
    {
      before: ({ message }, res) => {
        if (message.method !== 'server/discover') return false
        res.writeHead(502).end()
        return true
      },
    },
    'warning',
    'era',
    /HTTP 502, which proves nothing/,
  ],
  'list_changed after each list': [
    {
      before: ({ message }, res) => {
        if (message.method !== 'tools/list') return false
        res.writeHead(200, { 'content-type': 'text/event-stream' })
        res.write('data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n')
        res.end(`data: {"jsonrpc":"2.0","id":${message.id},"result":{"tools":[${tool('t')}]}}\n\n`)
        return true
      },
    },
    'warning',
    'list_changed',
    /at most once a second/,
  ],
}

for (const [what, [options, severity, check, message]] of Object.entries(odd))
  test(`${what}: doctor reports it, and what a gateway makes of it`, async () => {
    const server = await startRawServer({ era: 'legacy', call: () => undefined, ...options })
    try {
      const found = await diagnose(server.url)
      const finding = found.odd.find((one) => one.check === check && message.test(one.message))
      assert.ok(finding, JSON.stringify(found.findings, null, 1))
      assert.is(finding.severity, severity)
      assert.is(found.code, found.odd.some((one) => one.severity === 'error') ? 1 : 0)
      assert.is(
        found.findings.some((one) => one.check === 'tools'),
        true,
        'its tools are read all the same',
      )
    } finally {
      await server.close()
    }
  })

test('problems that keep tools from being served are errors with what to do', async () => {
  for (const [before, check, message] of [
    [(_: unknown, res: ServerResponse) => res.writeHead(401).end(), 'credential', /401/],
    [
      (_: unknown, res: ServerResponse) => res.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Log in'),
      'answer',
      /Log in/,
    ],
    [
      (_: unknown, res: ServerResponse) => res.writeHead(302, { location: 'https://login.example/?secret=1' }).end(),
      'redirect',
      /login\.example\/"/,
    ],
  ] as const) {
    const server = await startRawServer({
      era: 'legacy',
      call: () => undefined,
      before: (request, res) => Boolean(before(request, res)),
    })
    try {
      const { code, odd } = await diagnose(server.url)
      assert.is(code, 1)
      const finding = odd.find((one) => one.check === check && message.test(one.message))
      assert.ok(finding?.fix, JSON.stringify(odd))
      assert.not.match(JSON.stringify(odd), 'secret=1')
    } finally {
      await server.close()
    }
  }
  const { code, odd } = await diagnose('http://127.0.0.1:9/mcp')
  assert.is(code, 1)
  assert.is(odd[0]?.check, 'connection')
})

test('headers from the command line and from files go with each request, and their values are printed nowhere', async () => {
  const folder = temporaryFolder()
  const server = await startRawServer({
    era: 'legacy',
    call: () => undefined,
    before: ({ headers }, res) => {
      if (headers.authorization === 'Bearer told-to-nobody' && headers['x-team'] === 'blue') return false
      res.writeHead(401).end()
      return true
    },
  })
  try {
    const file = join(folder.path, 'token')
    await writeFile(file, 'Bearer told-to-nobody\n')
    const { code, out } = await doctor(
      ...[`${server.url}?key=told-to-nobody`, '--header', 'X-Team=blue', '--header-file', `Authorization=${file}`],
    )
    assert.is(code, 0)
    assert.match(out, /mcp \(sessions, 2025-11-25\)/)
    assert.match(out, /ok {7}tools +1 listed/)
    assert.not.match(out, 'told-to-nobody')
  } finally {
    await server.close()
    folder[Symbol.dispose]()
  }
})

test('wrong usage exits with 2 and says what is wrong', async () => {
  for (const [args, expected] of [
    [[], 'URL of an MCP server is missing'],
    [['ftp://a.example'], 'is not a URL of http or https'],
    [['http://a.example', '--header', 'X-A'], 'NAME=VALUE'],
    [['http://a.example', '--header', 'Mcp-Session-Id=1'], 'set by the gateway itself'],
    [['http://a.example', '--transport', 'stdio'], 'takes one of'],
  ] as const) {
    const { code, out } = await doctor(...args)
    assert.is(code, 2, out)
    assert.match(out, expected)
  }
})

test.run()
