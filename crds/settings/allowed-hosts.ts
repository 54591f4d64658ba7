import { limits } from './limits.ts'
import { list, type Reader, text } from './schema.ts'

/**
 * Host names that requests may carry besides those of the Service and of the public URL: that of an Ingress, say. Others
 * are refused, so that no web page reaches the endpoint by a name of its own (DNS rebinding).
 */
export const allowedHosts = (readBy: Reader) =>
  list(
    'Host names answered to besides those of the Service and of the public URL, such as that of an Ingress.',
    text(readBy, 'A host name without a port; `*` answers to all.', {
      min: 1,
      max: limits.name,
      pattern: '^(\\*|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)$',
    }),
    { max: 64 },
  )

/** The same in a file, in which the operator writes the hosts of the Service and of the public URL, too. */
export const allowedHostsInFile = list(
  'Host names answered to, besides those of the listeners and of resourceUrl; `*` answers to all.',
  text('gateway', 'A host name without a port, or an address.', { min: 1, max: limits.name }),
  { max: 1024 },
)
