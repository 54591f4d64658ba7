import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { changeText, newProblems, overviewText } from '../../cli/run/text.ts'
import type { Endpoint, Problem, Report } from '../../operator/standalone/report.ts'

const endpoint = (kind: string, name: string, port: number, registries: string[] = []): Endpoint => ({
  kind,
  namespace: 'default',
  name,
  url: `http://127.0.0.1:${port}${kind === 'MCPRegistry' ? '' : '/mcp'}`,
  admin: `http://127.0.0.1:${port + 1}`,
  registries,
})

const problem = (name: string, message: string): Problem => ({
  kind: 'MCPServer',
  namespace: 'default',
  name,
  reason: 'Crashed',
  message,
  severity: 'error',
})

const report = (endpoints: Endpoint[], problems: Problem[] = []): Report => ({
  ready: true,
  endpoints,
  starting: [],
  problems,
})

const gateway = endpoint('VirtualMCPServer', 'tools', 4483)
const server = endpoint('MCPServer', 'clock', 5000)
const registry = endpoint('MCPRegistry', 'catalog', 8080, ['public', 'internal'])

test('the table, and the lines that connect a client', () => {
  assert.is(
    overviewText(report([gateway, registry, server]), ['samples/quickstart']),
    `
  KIND              NAME             URL                        STATUS
  VirtualMCPServer  default/tools    http://127.0.0.1:4483/mcp  http://127.0.0.1:4484/status
  MCPRegistry       default/catalog  http://127.0.0.1:8080      http://127.0.0.1:8081/status
  MCPServer         default/clock    http://127.0.0.1:5000/mcp  http://127.0.0.1:5001/status

Connect a client:
  claude mcp add --transport http tools http://127.0.0.1:4483/mcp
  npx @modelcontextprotocol/inspector --cli http://127.0.0.1:4483/mcp --transport http --method tools/list
  curl http://127.0.0.1:8080/registry/public/v0.1/servers
  curl http://127.0.0.1:8080/registry/internal/v0.1/servers

In a browser: http://127.0.0.1:4483/ and http://127.0.0.1:8080/

Editing samples/quickstart changes what is served; Ctrl-C stops all.
`,
  )
})

test('the link to the console comes first, and alone if nothing is served', () => {
  const link = 'http://127.0.0.1:4480/login?secret=x'
  const [, , first = ''] = overviewText(report([gateway]), ['.'], link).split('\n')
  assert.match(first, /^ {2}Console {2,}default\/console {2}http:\/\/127\.0\.0\.1:4480\/login\?secret=x$/)
  assert.match(overviewText(report([]), ['.'], link), `Console: ${link}\nNothing is served yet.`)
})

test('without a gateway the lines connect a client to the servers themselves; if nothing is served, the text says so', () => {
  assert.match(overviewText(report([server]), ['.']), 'claude mcp add --transport http clock http://127.0.0.1:5000/mcp')
  assert.is(
    overviewText(report([]), ['x']),
    'Nothing is served yet. Editing x changes what is served; Ctrl-C stops all.\n',
  )
})

test('workloads that take long to start are named', () => {
  const starting = [registry, server]
  assert.match(
    overviewText({ ...report([gateway]), ready: false, starting }, ['x']),
    '\n\nStill starting: MCPRegistry default/catalog, MCPServer default/clock\n\nEditing x',
  )
  assert.match(overviewText({ ...report([]), ready: false, starting }, ['x']), /^Still starting: MCPRegistry/)
})

test('after a reload only changes are printed', () => {
  const before = report([gateway], [problem('clock', 'exited with code 1')])
  const after = report([gateway, server], [problem('other', 'exited with code 2')])
  assert.equal(changeText(after, before, ['MCPServer default/clock started']), [
    'changed: MCPServer default/clock started',
    'serving: MCPServer default/clock on http://127.0.0.1:5000/mcp',
    'solved: error: MCPServer default/clock: exited with code 1 (Crashed)',
  ])
  assert.equal(newProblems(after, before), ['error: MCPServer default/other: exited with code 2 (Crashed)'])
  assert.equal(changeText(after, after, []), [])
})

test('a problem of a file names the file once', () => {
  const message = 'manifests/a.yaml:4: Tabs are not allowed as indentation'
  const inFile: Problem = {
    kind: 'File',
    namespace: '',
    name: 'manifests/a.yaml',
    reason: 'X',
    message,
    severity: 'error',
  }
  assert.equal(newProblems(report([], [inFile]), undefined), [`error: ${message} (X)`])
})

test.run()
