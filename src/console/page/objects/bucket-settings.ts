/** Policy and CORS of a bucket, as the documents that they are. What is wrong is said before anything is sent. */
import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import { prettyJson } from '../format.ts'
import { html } from '../html.ts'
import { useAction, useLoaded } from '../loading.ts'
import { Field, Form, Loading, Problem } from '../parts.ts'
import type { FormValues } from '../parts.ts'
import { Refusal } from '../request.ts'
import { corsRulesProblem, policyProblem } from './document-checks.ts'
import type { CorsRule } from './document-checks.ts'
import { bucketDocument, s3 } from './s3.ts'

export const BucketSettings = ({ bucket }: { bucket: string }): VNode =>
  html`<div class="sections">
    <${Editor}
      bucket=${bucket}
      name="policy"
      title="Policy"
      about="Says what callers other than the owner may do."
      example=${examplePolicy(bucket)}
      problemOf=${(text: string) => policyProblem(text, bucket)}
    />
    <${Editor}
      bucket=${bucket}
      name="cors"
      title="CORS"
      about="Says which web pages may use the bucket from a browser."
      example=${EXAMPLE_CORS}
      problemOf=${corsProblem}
    />
  </div>`

interface EditorProps {
  readonly bucket: string
  readonly name: 'policy' | 'cors'
  readonly title: string
  readonly about: string
  readonly example: string
  /** Why the document cannot be stored; null: the store may take it. */
  readonly problemOf: (text: string) => string | null
}

function Editor({ bucket, name, title, about, example, problemOf }: EditorProps): VNode {
  const { value, problem, reload } = useLoaded(
    async (signal) => ({ text: await bucketDocument(bucket, name, signal) }),
    [bucket, name],
  )
  return html`<section aria-label=${title}>
    <h2>${title}</h2>
    <p>${about}</p>
    ${problem && html`<${Problem} of=${problem} />`}
    ${value === null ? problem === null && html`<${Loading} />` : html`<${Edit} key=${value.text} ...${{ bucket, name, title, example, problemOf }} stored=${value.text} onChange=${reload} />`}
  </section>`
}

interface EditProps extends Omit<EditorProps, 'about'> {
  readonly stored: string | null
  readonly onChange: () => void
}

function Edit({ bucket, name, title, example, problemOf, stored, onChange }: EditProps): VNode {
  const [text, setText] = useState(readable(stored ?? ''))
  const saving = useAction()
  const removing = useAction()
  const wrong = text.trim() === '' ? null : problemOf(text.trim())
  const save = async (_values: FormValues): Promise<void> => {
    const problem = problemOf(text.trim())
    if (problem !== null) throw new Refusal(400, 'not_sent', problem)
    await s3({ method: 'PUT', bucket, query: { [name]: '' }, body: text.trim() })
    onChange()
  }
  const remove = async (): Promise<void> => {
    await s3({ method: 'DELETE', bucket, query: { [name]: '' } })
    onChange()
  }
  const more = [
    text.trim() === '' &&
      html`<button key="example" type="button" onClick=${() => setText(example)}>Begin with an example</button>`,
    stored !== null &&
      html`<button key="remove" type="button" class="danger" onClick=${() => removing.run(remove)}>
        Remove ${title}
      </button>`,
  ]
  return html`<div>
    <${Form} action=${saving} submit=${`Save ${title}`} onSubmit=${save} beside=${more}>
      <${Field}
        label=${`${title} of ${bucket}`}
        name="text"
        rows=${14}
        value=${text}
        onInput=${setText}
        hint=${stored === null ? 'There is none now.' : ''}
      />
      ${wrong !== null && html`<p class="notice warn" role="status">${wrong}</p>`}
    <//>
    ${removing.problem && html`<${Problem} of=${removing.problem} />`}
  </div>`
}

/** JSON with indents; anything else as it is. */
function readable(text: string): string {
  try {
    return prettyJson(text)
  } catch {
    return text.replaceAll(/>\s*</g, '>\n<')
  }
}

function corsProblem(text: string): string | null {
  const xml = new DOMParser().parseFromString(text, 'application/xml')
  const error = xml.getElementsByTagName('parsererror')[0]
  if (error)
    return `It is no XML: ${(error.textContent ?? '').split('\n').find((line) => line.includes('error')) ?? ''}`
  const { documentElement: root } = xml
  if (root.localName !== 'CORSConfiguration') return 'The document must be a CORSConfiguration.'
  const other = [...root.children].find(({ localName }) => localName !== 'CORSRule')
  if (other !== undefined) return `A CORSConfiguration may have no ${other.localName}.`
  const elementsOf = (rule: Element): CorsRule =>
    Array.from(rule.children, ({ localName, textContent }) => [localName, textContent ?? ''])
  return corsRulesProblem(Array.from(root.children, elementsOf))
}

const examplePolicy = (bucket: string): string =>
  JSON.stringify(
    {
      Version: '2012-10-17',
      Statement: [
        {
          Sid: 'ReadByAll',
          Effect: 'Allow',
          Principal: '*',
          Action: 's3:GetObject',
          Resource: `arn:aws:s3:::${bucket}/public/*`,
        },
      ],
    },
    null,
    2,
  )

const EXAMPLE_CORS = `<CORSConfiguration>
  <CORSRule>
    <AllowedOrigin>https://app.example.com</AllowedOrigin>
    <AllowedMethod>GET</AllowedMethod>
    <MaxAgeSeconds>3600</MaxAgeSeconds>
  </CORSRule>
</CORSConfiguration>`
