import { createServer } from 'node:net'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { LocalPorts } from '../../../../operator/standalone/ports/local-ports.ts'
import { freePort } from '../../../support/network/free-port.ts'

const request = (kind: string, name: string, fixed?: string, isUp = false) => ({
  id: { kind, namespace: 'default', name },
  fixed,
  isUp,
})
const gateway = (name: string, fixed?: string) => request('VirtualMCPServer', name, fixed)

const assignPorts = (ports: LocalPorts, ...requests: ReturnType<typeof request>[]) =>
  requests.map(({ id }) => ports.of(id)?.listen)

test('gateways count up from 4483, registries from 8080, around the ports that are fixed', async () => {
  const ports = new LocalPorts('127.0.0.1', {})
  const requests = [
    gateway('a'),
    gateway('b'),
    gateway('c', '4484'),
    request('MCPRegistry', 'r'),
    request('MCPRegistry', 's', '8080'),
  ]
  await ports.assign(requests)
  assert.equal(assignPorts(ports, ...requests), [4483, 4485, 4484, 8081, 8080])
})

test('a workload keeps its port when others come and go', async () => {
  const ports = new LocalPorts('127.0.0.1', {})
  await ports.assign([gateway('b'), gateway('c')])
  await ports.assign([gateway('a'), gateway('c')])
  assert.equal(assignPorts(ports, gateway('a'), gateway('c')), [4483, 4484])
  assert.is(ports.of(gateway('b').id), undefined)
})

test('everything else has a free port, and the same one in the next run', async () => {
  const ports = new LocalPorts('127.0.0.1', {})
  const server = request('MCPServer', 'x')
  await ports.assign([server])
  const { listen, admin, server: beside } = ports.of(server.id) ?? {}
  assert.is(new Set([listen, admin, beside]).size, 3)
  assert.ok(Math.max(Number(listen), Number(admin), Number(beside)) < 32_768, 'none is given to outgoing connections')
  const next = new LocalPorts('127.0.0.1', ports.toJSON())
  await next.assign([server])
  assert.equal(next.of(server.id), ports.of(server.id))
  await next.assign([])
  assert.equal(next.toJSON(), {})
})

test('a remembered port that another process uses is replaced; its own port stays', async () => {
  const holder = createServer()
  await new Promise<void>((resolve) => holder.listen(0, '127.0.0.1', resolve))
  const { port } = holder.address() as { port: number }
  const remembered = { 'MCPServer/default/x admin': port }
  const other = new LocalPorts('127.0.0.1', remembered)
  await other.assign([request('MCPServer', 'x')])
  assert.is.not(other.of(request('MCPServer', 'x').id)?.admin, port)
  const own = new LocalPorts('127.0.0.1', remembered)
  await own.assign([request('MCPServer', 'x', undefined, true)])
  assert.is(own.of(request('MCPServer', 'x').id)?.admin, port)
  holder.close()
})

test('endpoints for people are on the chosen address, all others on loopback', async () => {
  const ports = new LocalPorts('0.0.0.0', {})
  const fixed = String(await freePort())
  const requests = [gateway('a'), request('MCPServer', 'x'), request('MCPServer', 'y', fixed)]
  await ports.assign(requests)
  assert.equal(
    requests.map(({ id }) => ports.of(id)?.host),
    ['0.0.0.0', '127.0.0.1', '0.0.0.0'],
  )
  assert.is(ports.buildUrl(gateway('a').id), 'http://127.0.0.1:4483')
})

test('an invalid port, and one that two workloads want, are problems', async () => {
  const ports = new LocalPorts('127.0.0.1', {})
  await ports.assign([gateway('a', 'http'), gateway('b', '5000'), gateway('c', '5000'), gateway('d', '70000')])
  assert.is(ports.findProblem(gateway('a').id), 'local-port must be a port, not "http"')
  assert.is(ports.findProblem(gateway('b').id), undefined)
  assert.is(ports.findProblem(gateway('c').id), 'local-port 5000 is already that of VirtualMCPServer default/b')
  assert.is(ports.findProblem(gateway('d').id), 'local-port must be a port, not "70000"')
})

test.run()
