import { useState } from 'react'
import { api } from '../app/api.ts'
import { codeDrawer, shown } from '../app/drawers.ts'
import { t } from '../app/texts.ts'
import { Code, Json } from '../kit/bits.tsx'
import { Dialog } from '../kit/dialog.tsx'
import { commandOf, curlOf, typescriptOf } from './snippets.ts'

const languages = { curl: curlOf, cli: commandOf, typescript: typescriptOf }
type Language = keyof typeof languages
const names = Object.keys(languages) as Language[]
const keyOfSetting = 'bursar.code'

/** The language that the reader chose last in this browser. */
const lastLanguage = (): Language => names.find((name) => name === localStorage.getItem(keyOfSetting)) ?? 'curl'

/** Shows the request of the current screen as code, and its answer as JSON. */
const AsCode = () => {
  const request = shown.use()
  const [language, setLanguage] = useState(lastLanguage)
  const [answer, setAnswer] = useState<unknown>()
  if (request === null) return null
  const { operation, input } = request
  const choose = (name: Language) => {
    localStorage.setItem(keyOfSetting, name)
    setLanguage(name)
  }
  return (
    <Dialog title={t.code.title} onClose={() => codeDrawer.set(false)} kind="drawer">
      <p className="soft">{t.code.about}</p>
      <div className="views" role="group" aria-label={t.code.language}>
        {names.map((name) => (
          <button key={name} type="button" aria-pressed={name === language} onClick={() => choose(name)}>
            {t.code.languages[name]}
          </button>
        ))}
      </div>
      <Code text={languages[language](request)} label={t.code.languages[language]} />
      {language === 'cli' && <p className="soft">{t.code.cliAbout}</p>}
      {operation.method === 'GET' &&
        (answer === undefined ? (
          <button type="button" onClick={() => void api.sendRaw(operation as never, input).then(({ body }) => setAnswer(body))}>
            {t.code.run}
          </button>
        ) : (
          <>
            <h3>{t.code.answer}</h3>
            <Json value={answer} label={t.code.answer} />
          </>
        ))}
    </Dialog>
  )
}
export default AsCode
