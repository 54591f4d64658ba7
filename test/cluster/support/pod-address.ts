import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { orFail } from '../../support/or-fail.ts'
import type { ControlPlane } from './control-plane.ts'
import { eventually } from './operator-process.ts'

/** Where the data plane of every pod has its admin listener. */
const ADMIN_PORT = 8081

export interface PodAddress {
  close(): void
}

/**
 * What a kubelet would do for the pod of the workload `instance`: it runs, and at its own address its admin listener
 * answers as the one at `adminUrl()` does. `net` is the second part of that address, another one for each test file;
 * the rest is of this process, so that no other run has it.
 */
export async function givePodAddress(
  plane: ControlPlane,
  instance: string,
  net: number,
  adminUrl: () => string,
): Promise<PodAddress> {
  const address = `127.${net}.${process.pid % 250}.${1 + (Math.floor(process.pid / 250) % 250)}`
  const server = createServer(
    orFail(async (request: IncomingMessage, response: ServerResponse) => {
      response.end(await (await fetch(`${adminUrl()}${request.url}`)).text())
    }),
  )
  await new Promise<void>((resolve) => server.listen(ADMIN_PORT, address, resolve))
  const selector = `app.kubernetes.io/instance=${instance}`
  const name = await eventually(
    () => plane.kubectl(['get', 'pods', '-l', selector, '-o', 'jsonpath={.items[0].metadata.name}']),
    'the pod',
  )
  const patch = JSON.stringify({ status: { phase: 'Running', podIP: address, podIPs: [{ ip: address }] } })
  plane.kubectl(['patch', 'pod', name, '--subresource=status', '--type=merge', '-p', patch])
  return { close: () => void server.close() }
}
