/** NetworkPolicyPeer of `networking.k8s.io/v1`, checked as strictly as by the API server. */
import { limits } from '../limits.ts'
import { choice, list, map, object, Type, text } from '../schema.ts'

const OCTET = '(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])'
const GROUP = '[0-9a-fA-F]{1,4}'
const V4 = `(${OCTET}\\.){3}${OCTET}/(3[0-2]|[12]?[0-9])`
/** RFC 4291, section 2.2: all eight groups, or `::` in place of one or more. */
const V6 = `((${GROUP}:){7}${GROUP}|(${GROUP}:){1,7}:|(${GROUP}:){1,6}:${GROUP}|(${GROUP}:){1,5}(:${GROUP}){1,2}|(${GROUP}:){1,4}(:${GROUP}){1,3}|(${GROUP}:){1,3}(:${GROUP}){1,4}|(${GROUP}:){1,2}(:${GROUP}){1,5}|${GROUP}:(:${GROUP}){1,6}|:((:${GROUP}){1,7}|:))/(12[0-8]|1[01][0-9]|[1-9]?[0-9])`
export const CIDR = `^(${V4}|${V6})$`

const NAME = '[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?'
const SUBDOMAIN = '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*'
/** A qualified name: `NAME`, or `DNS subdomain/NAME`. */
export const LABEL_KEY = `^(${SUBDOMAIN}/)?${NAME}$`
const LABEL_VALUE = `^(${NAME})?$`

const MOST = 16
/** A prefix of 253, a slash and a name of 63. */
export const KEY_LENGTH = 317

const labelValue = text('operator', 'A value.', { max: limits.label, pattern: LABEL_VALUE })

const requirement = object(
  'A requirement.',
  {
    key: text('operator', 'Key of the label.', { min: 1, max: KEY_LENGTH, pattern: LABEL_KEY }),
    operator: choice('operator', 'Relation of the label to the values.', ['In', 'NotIn', 'Exists', 'DoesNotExist']),
    values: Type.Optional(list('Values, for In and NotIn.', labelValue, { max: MOST })),
  },
  {
    rules: [
      {
        rule: "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 : !has(self.values) || size(self.values) == 0",
        message: 'values are needed by In and NotIn, and only by them',
      },
    ],
  },
)

const labelSelector = (description: string) =>
  Type.Optional(
    object(
      description,
      {
        matchLabels: Type.Optional(
          map('Labels with their values.', labelValue, {
            max: MOST,
            rules: [
              {
                rule: `self.all(key, key.size() <= ${KEY_LENGTH} && key.matches(r'${LABEL_KEY}'))`,
                message: 'every key must be the key of a label, such as app.kubernetes.io/name',
              },
            ],
          }),
        ),
        matchExpressions: Type.Optional(list('Requirements, all of which must hold.', requirement, { max: MOST })),
      },
      { readBy: 'operator' },
    ),
  )

const block = object('A network.', {
  cidr: text('operator', 'The network, such as `10.0.0.0/8`.', { max: 64, pattern: CIDR }),
  except: Type.Optional(
    list('Networks inside of it that are left out.', text('operator', 'A network.', { max: 64, pattern: CIDR }), {
      max: MOST,
    }),
  ),
})

/** The peers that may reach the public port of pods. */
export const networkPeers = list(
  'Peers that may reach the public port, as in `ingress[].from` of a NetworkPolicy. Absent: everybody.',
  object(
    'Pods, namespaces or a network.',
    {
      podSelector: labelSelector('Pods: of this namespace, or of those that namespaceSelector selects. Empty: all.'),
      namespaceSelector: labelSelector('Namespaces. Empty: all.'),
      ipBlock: Type.Optional(block),
    },
    {
      rules: [
        {
          rule: 'has(self.podSelector) || has(self.namespaceSelector) || has(self.ipBlock)',
          message: 'set podSelector, namespaceSelector or ipBlock: an empty peer would be everybody',
        },
        {
          rule: '!has(self.ipBlock) || (!has(self.podSelector) && !has(self.namespaceSelector))',
          message: 'ipBlock stands alone',
        },
      ],
    },
  ),
  { min: 1, max: MOST },
)
