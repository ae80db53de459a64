import { help } from '../app/drawers.ts'
import { setSingleKeys, singleKeys } from '../app/keys.ts'
import { t } from '../app/texts.ts'
import { Dialog } from '../kit/dialog.tsx'

/** The list of keys. Single letters can be switched off for readers who dictate. */
const Help = () => (
  <Dialog title={t.help.title} onClose={() => help.set(false)}>
    <dl className="keys">
      {Object.entries(t.help.keys).map(([key, text]) => (
        <div key={key}>
          <dt>
            {key.split(' ').map((part) => (
              <kbd key={part}>{part}</kbd>
            ))}
          </dt>
          <dd>{text}</dd>
        </div>
      ))}
    </dl>
    <label className="choice">
      <input type="checkbox" checked={singleKeys.use()} onChange={({ target }) => setSingleKeys(target.checked)} />
      {t.help.single}
    </label>
  </Dialog>
)
export default Help
