/** The optional admission webhook, with all that it needs besides the operator itself. */
import type { KindDeclaration } from '../../crds/define.ts'
import { ADMISSION_NAME, formatAdmissionName, formatWebhookName, OPERATOR_NAME } from '../render/network/network.ts'
import { formatInstallationLabel, VERSION } from '../render/object/object.ts'
import { buildClusterRole, buildRole, type Installation, metadata } from './objects.ts'

export const ADMISSION_PORT = { name: 'admission', containerPort: 9443, protocol: 'TCP' }

const TIMEOUT = 3

/** Excludes the operator's own writes and those of Kubernetes' controllers, where nobody would read a warning. */
const matchConditions = [
  { name: 'not-the-operator', expression: `!request.userInfo.username.endsWith(":${OPERATOR_NAME}")` },
  { name: 'not-kubernetes', expression: '!request.userInfo.username.startsWith("system:serviceaccount:kube-system:")' },
]

/** @param selector the webhook's selectors of namespaces and objects */
const configuration = (kinds: readonly KindDeclaration[], { group, namespace }: Installation, selector: object) => ({
  apiVersion: 'admissionregistration.k8s.io/v1',
  kind: 'ValidatingWebhookConfiguration',
  metadata: metadata(formatAdmissionName(namespace)),
  webhooks: [
    {
      name: formatWebhookName(group),
      admissionReviewVersions: ['v1'],
      // The operator adds the authority of its certificate, and the path that it answers at.
      clientConfig: { service: { name: ADMISSION_NAME, namespace, port: 443 } },
      failurePolicy: 'Ignore',
      matchPolicy: 'Equivalent',
      sideEffects: 'None',
      timeoutSeconds: TIMEOUT,
      ...selector,
      matchConditions,
      rules: [
        {
          apiGroups: [group],
          apiVersions: [VERSION],
          operations: ['CREATE', 'UPDATE', 'DELETE'],
          resources: kinds.map(({ plural }) => plural),
          scope: 'Namespaced',
        },
      ],
    },
  ],
})

export const inNamespaces = (values: readonly string[]) => ({
  namespaceSelector: { matchExpressions: [{ key: 'kubernetes.io/metadata.name', operator: 'In', values }] },
})

/** Selects the objects of an installation without a name. */
export const ofNoInstallation = (group: string) => ({
  objectSelector: { matchExpressions: [{ key: formatInstallationLabel(group), operator: 'DoesNotExist' }] },
})

/**
 * Returns Secret, Service, rights and configuration. The operator fills the empty Secret, so that nobody needs the
 * right to create one.
 */
export function buildAdmissionObjects(
  kinds: readonly KindDeclaration[],
  installation: Installation,
  selector: object,
): readonly object[] {
  const { namespace } = installation
  const name = formatAdmissionName(namespace)
  return [
    { apiVersion: 'v1', kind: 'Secret', metadata: metadata(ADMISSION_NAME, namespace), type: 'Opaque' },
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: metadata(ADMISSION_NAME, namespace),
      spec: {
        selector: { 'app.kubernetes.io/name': OPERATOR_NAME },
        ports: [{ name: 'admission', port: 443, protocol: 'TCP', targetPort: 'admission' }],
      },
    },
    ...buildRole(
      ADMISSION_NAME,
      [{ apiGroups: [''], resources: ['secrets'], resourceNames: [ADMISSION_NAME], verbs: ['get', 'update'] }],
      installation,
      namespace,
    ),
    ...buildClusterRole(
      name,
      [
        {
          apiGroups: ['admissionregistration.k8s.io'],
          resources: ['validatingwebhookconfigurations'],
          resourceNames: [name],
          verbs: ['get', 'patch'],
        },
      ],
      installation,
    ),
    configuration(kinds, installation, selector),
  ]
}
