import { once } from 'node:events'
import { createServer, request, type Server } from 'node:http'
import type { ControlPlane } from './control-plane.ts'
import { eventually } from './operator-process.ts'

/** The ports of the admin listener in every pod, and of a gateway's public listener. */
const ADMIN_PORT = 8081
const PUBLIC_PORT = 4483

export interface PodAddress {
  readonly address: string
  close(): void
}

/** Forwards requests to the listener at the URL that `url` returns, which is called for each request. */
async function relay(address: string, port: number, url: () => string): Promise<Server> {
  const server = createServer((incoming, response) => {
    const { url: path = '/', method, headers } = incoming
    const passed = request(new URL(path, url()), { method, headers })
    passed.on('response', (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
    })
    passed.on('error', () => response.destroy())
    incoming.pipe(passed)
  })
  server.listen(port, address)
  await once(server, 'listening')
  return server
}

/**
 * Does the kubelet's part for the pod of the workload `instance`. The pod is running, and at its address the admin
 * listener forwards to `adminUrl()` and the public one to `publicUrl()`. `net` is the second octet of that address,
 * different for each test file; the others derive from this process, so that no other run uses them.
 */
export async function givePodAddress(
  plane: ControlPlane,
  instance: string,
  net: number,
  adminUrl: () => string,
  publicUrl?: () => string,
): Promise<PodAddress> {
  const address = `127.${net}.${process.pid % 250}.${1 + (Math.floor(process.pid / 250) % 250)}`
  const servers = [await relay(address, ADMIN_PORT, adminUrl)]
  if (publicUrl) servers.push(await relay(address, PUBLIC_PORT, publicUrl))
  const labels = `app.kubernetes.io/instance=${instance}`
  const name = await eventually(() => plane.list('pods', { labels })[0]?.metadata.name, 'the pod')
  const patch = { status: { phase: 'Running', podIP: address, podIPs: [{ ip: address }] } }
  plane.patch('pod', name, patch, { subresource: 'status' })
  return {
    address,
    close() {
      for (const server of servers) {
        server.close()
        server.closeAllConnections()
      }
    },
  }
}
