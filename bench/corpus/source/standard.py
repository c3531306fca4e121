"""Pages of ReportLab in fonts that are not in the file: python3 standard.py OUT"""

import sys

from reportlab import rl_config
from reportlab.lib.pagesizes import A4
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfgen import canvas

rl_config.invariant = 1
page = canvas.Canvas(sys.argv[1], pagesize=A4, pageCompression=len(sys.argv) > 2)
y = 800
for font in ("Helvetica", "Helvetica-BoldOblique", "Times-Roman", "Times-Italic", "Courier", "Courier-Bold"):
    page.setFont(font, 12)
    page.drawString(60, y, "%s: the affable officer waits – 20 °C, naïve façade, Straße" % font)
    y -= 20
page.setFont("Symbol", 12)
page.drawString(60, y, "alpha beta gamma")
page.showPage()
y = 800
for font, text in (
    ("HeiseiMin-W3", "図書館は午前九時に開き、午後五時に閉まります。"),
    ("HeiseiKakuGo-W5", "本は一度に一冊だけ借りることができます。"),
    ("STSong-Light", "图书馆上午九点开门，下午五点关门。"),
    ("MSung-Light", "圖書館上午九點開門，下午五點關門。"),
    ("HYSMyeongJo-Medium", "도서관은 오전 아홉 시에 열고 닫습니다."),
):
    pdfmetrics.registerFont(UnicodeCIDFont(font))
    page.setFont(font, 14)
    page.drawString(60, y, text)
    y -= 30
pdfmetrics.registerFont(UnicodeCIDFont("HeiseiMin-W3", isVertical=True))
page.save()
