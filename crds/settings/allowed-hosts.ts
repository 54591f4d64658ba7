import { limits } from './limits.ts'
import { list, type Reader, text } from './schema.ts'

/** Host names in addition to those of the Service and of the public URL. Others are refused (DNS rebinding). */
export const allowedHosts = (readBy: Reader) =>
  list(
    'Host names that requests may have, besides those of the Service and of the public URL, such as that of an Ingress.',
    text(readBy, 'A host name without a port; `*` allows all.', {
      min: 1,
      max: limits.name,
      pattern: '^(\\*|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)$',
    }),
    { max: 64 },
  )

/** The same list in a configuration file, to which the operator adds the hosts of Service and public URL. */
export const allowedHostsInFile = list(
  'Host names that requests may have, besides those of the listeners and of resourceUrl; `*` allows all.',
  text('gateway', 'A host name without a port, or an address.', { min: 1, max: limits.name }),
  { max: 1024 },
)
